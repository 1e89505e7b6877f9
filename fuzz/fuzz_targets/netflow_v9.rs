//! NetFlow v9.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tidegate_fuzz::decode(input, &[&[0, 9]]));
