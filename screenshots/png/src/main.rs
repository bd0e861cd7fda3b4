//! Renders `screenshots/*.svg` to PNG: `cargo run --release --manifest-path screenshots/png/Cargo.toml`.
//!
//! No font of the machine is used, so that the pictures are the same everywhere.

use std::{error::Error, fs, path::Path};

use resvg::{
    render,
    tiny_skia::{Pixmap, Transform},
    usvg::{Options, Tree},
};

/// Pixels per unit, for screens on which one pixel is too small to see.
const SCALE: f32 = 2.0;

fn main() -> Result<(), Box<dyn Error>> {
    let screenshots = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let options = with_fonts(&screenshots.join("fonts"))?;
    for entry in fs::read_dir(&screenshots)? {
        let svg = entry?.path();
        if svg.extension().is_some_and(|extension| extension == "svg") {
            draw(&svg, &options).map_err(|error| format!("{}: {error}", svg.display()))?;
        }
    }
    Ok(())
}

fn with_fonts(folder: &Path) -> Result<Options<'static>, Box<dyn Error>> {
    let mut options = Options::default();
    let fonts = options.fontdb_mut();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "ttf" || extension == "otf")
        {
            fonts.load_font_data(fs::read(path)?);
        }
    }
    fonts.set_monospace_family("DejaVu Sans Mono");
    Ok(options)
}

fn draw(svg: &Path, options: &Options<'_>) -> Result<(), Box<dyn Error>> {
    let tree = Tree::from_data(&fs::read(svg)?, options)?;
    let size = tree
        .size()
        .to_int_size()
        .scale_by(SCALE)
        .ok_or("the picture has no size")?;
    let mut pixels = Pixmap::new(size.width(), size.height()).ok_or("the picture is too large")?;
    render(
        &tree,
        Transform::from_scale(SCALE, SCALE),
        &mut pixels.as_mut(),
    );
    pixels.save_png(svg.with_extension("png"))?;
    Ok(())
}
