//! Proto ⇄ domain, both directions, one file per protocol. Nothing else converts.

pub mod goldfive;
pub mod pilothouse;
pub mod status;

/// What the files under `proto/` become in Rust.
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    rustdoc::all
)]
pub mod pb {
    pub mod goldfive {
        pub mod v1 {
            tonic::include_proto!("goldfive.v1");
        }
    }
    pub mod harmonograf {
        pub mod v1 {
            tonic::include_proto!("harmonograf.v1");
        }
    }
    pub mod pilothouse {
        pub mod v1 {
            tonic::include_proto!("pilothouse.v1");
        }
    }
}
