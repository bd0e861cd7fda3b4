//! The palette under the keys.

use super::super::{
    keys::{Code, Key},
    model::{Front, Model},
    msg::{Effect, Moment},
    palette::Palette,
};
use super::keys::act;

pub(super) fn open_palette(model: &mut Model) -> Vec<Effect> {
    model.front = Some(Front::Palette(Palette::default()));
    Vec::new()
}

/// What is typed into it; taking away from nothing leaves.
pub(super) fn type_command(model: &mut Model, key: Key) {
    if let Some(Front::Palette(palette)) = &mut model.front {
        let nothing = palette.text.is_empty() && key.code == Code::Backspace;
        palette.key(key);
        if nothing {
            model.front = None;
        }
    }
}

/// Goes about in what was found; round and round.
pub(super) fn step_command(model: &mut Model, by: isize) {
    let offered: Vec<_> = model.offered().collect();
    if let Some(Front::Palette(palette)) = &mut model.front {
        let found = palette.find(offered).len().max(1);
        palette.at = (palette.at + found).saturating_add_signed(by) % found;
    }
}

/// Does what is selected, where the keyboard was before. What lets an agent do something has to stand there as a whole
/// word: the first key only completes it, since a hurried hand takes what happens to be on top.
pub(super) fn run_command(model: &mut Model, at: Moment, key: Key) -> Vec<Effect> {
    let Some(Front::Palette(mut palette)) = model.front.take() else {
        return Vec::new();
    };
    let found = palette.find(model.offered());
    match found.get(palette.at) {
        Some(action) if action.permits() && palette.text.trim() != action.word() => {
            palette.complete(*action);
            model.front = Some(Front::Palette(palette));
            Vec::new()
        }
        Some(action) => act(model, at, *action, key),
        None => {
            model.warn("no command is called so here");
            model.front = Some(Front::Palette(palette));
            Vec::new()
        }
    }
}
