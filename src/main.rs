//! The `tidegate` program.

fn main() {}
