//! The server: the thread that owns the registry, identity, and one file per surface.
