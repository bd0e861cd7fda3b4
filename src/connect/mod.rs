//! The one gRPC client: Watch with resume, calls with retry.
