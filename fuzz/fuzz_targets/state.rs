//! The file of templates that is kept over a restart, behind a checksum that is right.
#![no_main]

use sha2::{Digest, Sha256};
use tidegate::decode::Exporters;
use tidegate_fuzz::trial::NOW_MS;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let exporters = Exporters::default();
    exporters.restore(input, NOW_MS).unwrap_err();
    let mut sealed = [b"tidegate state\r\n\0\x02", input].concat();
    let checksum = Sha256::digest(&sealed);
    sealed.extend_from_slice(&checksum);
    if let Ok(restored) = exporters.restore(&sealed, NOW_MS) {
        // Of two templates with one id the later one is kept.
        let kept = exporters.snapshot(NOW_MS);
        assert!(kept.templates <= restored.templates);
        let again = Exporters::default().restore(&kept.bytes, NOW_MS).unwrap();
        assert_eq!((again.templates, again.expired, again.refused), (kept.templates, 0, 0));
    }
});
