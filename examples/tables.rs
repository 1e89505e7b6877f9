//! Writes tables of a realistic size, and `tables.toml` that names them, to the folder that is given: for benchmarks.
#![expect(clippy::unwrap_used, reason = "a benchmark fails by panicking")]
#![expect(unreachable_pub, reason = "shared with benches and tests")]

#[path = "../tests/common/mmdb.rs"]
mod mmdb;
#[path = "../benches/common/tables.rs"]
mod tables;

use anyhow::Context as _;

fn main() -> anyhow::Result<()> {
    let folder = std::env::args_os().nth(1).context("tables FOLDER")?;
    std::fs::create_dir_all(&folder)?;
    let folder = std::path::absolute(folder)?;
    let text = tables::write_all(&folder, "127.0.0.0/8");
    std::fs::write(folder.join("tables.toml"), text)?;
    Ok(())
}
