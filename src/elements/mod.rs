//! The registry of information elements: what an id in a template is called, and what its bytes are.
//!
//! It is data, in two files beside this one: `iana.csv` is IANA's registry, `enterprise.csv` has the elements
//! of vendors and the field types that only NetFlow v9 has; each names its sources. Three families follow
//! from these by rule and are not listed: reverse elements (RFC 5103), CERT's own reverse elements, and the
//! NetFlow v9 numbers of ntop's elements. `tidegate elements` prints the registry.

mod data_type;
mod element;
mod lines;
mod registry;
#[cfg(test)]
mod tests;

pub use data_type::DataType;
pub use element::{Element, Scope};
pub use registry::{Registry, registry};
