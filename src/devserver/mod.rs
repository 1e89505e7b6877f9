//! A real ClickHouse for tests, the demo and a laptop, without root, a container or a package manager.
//!
//! ClickHouse is also published as a shared library. [`install()`] fetches that library once, [`run()`] turns the
//! current process into a server with it, and [`DevServer`] starts such a process and stops it again. The HTTP
//! and native handlers, merges, TTLs and users are the real ones. What is missing is whatever writes to the
//! server's own configuration (`CREATE USER`, `GRANT`, reloads), TLS listeners, replication and async inserts.
//!
//! It is not for production: nothing here is needed to run the collector, and the collector never calls it.

mod child;
mod directory;
mod failure;
mod http;
mod install;
mod library;
mod run;

pub use child::{DevServer, DevServerOptions, StartError, StopError};
pub use http::QueryError;
pub use install::{InstallError, cache_directory, install, installed};
pub use library::leave;
pub use run::{Outcome, RunError, RunOptions, run};
