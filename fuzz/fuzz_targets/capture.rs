//! The reader of pcap and pcapng files.
#![no_main]

use std::io::Cursor;

use tidegate::capture::Capture;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Ok(mut capture) = Capture::from_reader(Cursor::new(input.to_vec())) else { return };
    let mut datagrams = 0;
    for datagram in capture.by_ref() {
        match datagram {
            // Fragments are put together, so a datagram may be longer than its last packet.
            Ok(datagram) => assert!(datagram.payload.len() <= input.len().min(65_535)),
            Err(_) => break,
        }
        datagrams += 1;
    }
    assert!(datagrams <= capture.packets());
    assert!(capture.packets() <= input.len() as u64);
    assert!(capture.next().is_none(), "it stays at its end");
});
