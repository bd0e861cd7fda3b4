//! How the program ends: one code for each kind of end, fixed so that scripts can rely on it.

use crate::connect::CallError;

/// It was done.
pub(crate) const DONE: u8 = 0;
/// `wait`: rejected.
pub(crate) const REJECTED: u8 = 1;
/// `wait`: expired or withdrawn.
pub(crate) const ENDED: u8 = 2;
/// `wait`: not yet.
pub(crate) const NOT_YET: u8 = 3;
const REFUSED: u8 = 4;
const NO_SERVER: u8 = 5;
const USAGE: u8 = 64;
/// Our own fault, or the machine's.
pub const FAULT: u8 = 70;

/// Ended by a signal, as a shell says it.
pub(crate) fn killed_by(signal: u8) -> u8 {
    128 + signal
}

/// Why something could not be done, and the exit code that says so.
#[derive(Debug)]
pub(crate) struct Stopped {
    /// For the person.
    pub(crate) why: String,
    /// For the script.
    pub(crate) code: u8,
}

impl Stopped {
    /// The command line, or a file it names, is wrong; or this is not a terminal.
    pub(crate) fn usage(why: impl Into<String>) -> Self {
        Self::new(USAGE, why)
    }

    /// We are at fault, or the machine is.
    pub(crate) fn fault(why: impl Into<String>) -> Self {
        Self::new(FAULT, why)
    }

    /// Refused.
    pub(crate) fn refused(why: impl Into<String>) -> Self {
        Self::new(REFUSED, why)
    }

    fn new(code: u8, why: impl Into<String>) -> Self {
        let why = why.into();
        Self { why, code }
    }
}

impl From<CallError> for Stopped {
    fn from(error: CallError) -> Self {
        let code = match &error {
            CallError::Refused(_) => REFUSED,
            CallError::NoServer(_) => NO_SERVER,
            CallError::Garbled(_) => FAULT,
        };
        let why = match &error {
            CallError::NoServer(_) => format!(
                "{error}\n`pilothouse serve` keeps a registry, `pilothouse` opens one; --data, --socket or --server say where it is"
            ),
            CallError::Refused(_) | CallError::Garbled(_) => error.to_string(),
        };
        Self::new(code, why)
    }
}

impl From<registry::Refusal> for Stopped {
    fn from(refusal: registry::Refusal) -> Self {
        Self::usage(refusal.to_string())
    }
}
