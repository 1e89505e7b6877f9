//! NetFlow v1, v5 and v7.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tidegate_fuzz::decode(input, &[&[0, 1], &[0, 5], &[0, 7]]));
