//! What the server's config says of a call: the gate's ruling (DF-28). Which rule fits is looked up by whoever read the config,
//! and handed in, as the time is.

use crate::{
    approval::{Asks, Risk},
    text::Untrusted,
};

/// What is done with a gated call of a run that nobody follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unattended {
    /// It is denied.
    #[default]
    Deny,
    /// It runs; but never what has a form, or asks an admin.
    Allow,
}

/// A rule fits: the call is gated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ruling {
    /// The rule's name, as the config spells it.
    pub rule: Untrusted,
    /// Who is asked.
    pub asks: Asks,
    /// How many different people have to say yes.
    pub votes: u8,
    /// How dangerous it is.
    pub risk: Risk,
    /// What an unattended run gets.
    pub unattended: Unattended,
}
