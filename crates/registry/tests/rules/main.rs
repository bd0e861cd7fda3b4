//! The rules, as rows: the time, what was asked, what came back.
