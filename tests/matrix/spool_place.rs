//! Where the spool of a case is, and how much room it has.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::common::{may_as_root, skip};
use crate::faults::Trouble;

/// The least that `spool.max-size` may be.
const MAX_SIZE_BYTES: u64 = 16 << 20;

/// Room of a spool that is to be too small: for some batches of those that come while the fault lasts.
const ROOM_BYTES: u64 = 512 << 10;

/// Where a spool is; unmounted at the end if it is a file system of its own.
pub struct SpoolPlace {
    folder: TempDir,
    is_mounted: bool,
}

impl SpoolPlace {
    /// `None` when this machine cannot have the fault.
    pub fn new(trouble: Trouble) -> Option<Self> {
        let mut place = Self { folder: TempDir::new().unwrap(), is_mounted: false };
        match trouble {
            Trouble::DiskFull => place.mount().then_some(place),
            Trouble::SpoolFull => {
                // What was set aside is counted, too.
                std::fs::create_dir(place.path()).unwrap();
                let filler = place.path().join("0000000000000000.damaged");
                File::create(filler).unwrap().set_len(MAX_SIZE_BYTES - ROOM_BYTES).unwrap();
                Some(place)
            }
            _ => Some(place),
        }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("spool")
    }

    fn mount(&mut self) -> bool {
        if !may_as_root("a small file system is to be mounted") {
            return false;
        }
        self.is_mounted = mount(self.folder.path());
        if !self.is_mounted {
            skip("no file system can be mounted here");
        }
        self.is_mounted
    }
}

fn mount(path: &Path) -> bool {
    let size = format!("size={ROOM_BYTES}");
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(path);
    mount.output().is_ok_and(|output| output.status.success())
}

impl Drop for SpoolPlace {
    fn drop(&mut self) {
        if self.is_mounted {
            drop(Command::new("umount").arg(self.folder.path()).status());
        }
    }
}
