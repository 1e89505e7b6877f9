use super::*;

fn entry() -> Entry {
    let header = Header {
        token: "5f0c-17".to_owned(),
        target: "tidegate.flows".to_owned(),
        rows: 50_000,
        first_row: 0,
        on_row_error: OnRowError::Quarantine,
        why: Why::Refused { code: 516 },
        created_ms: 1_800_000_000_000,
        replaces: None,
    };
    Entry { header, body: Bytes::from_static(b"not many rows") }
}

fn sealed(entry: &Entry) -> Vec<u8> {
    [&seal(entry).unwrap()[..], &entry.body].concat()
}

fn read(mut bytes: &[u8]) -> Result<Entry, ReadError> {
    let length = bytes.len() as u64;
    let sealed = Sealed::read(&mut bytes)?;
    let body = sealed.read_body(&mut bytes)?;
    assert_eq!(sealed.file_bytes, length);
    Ok(Entry { header: sealed.header, body })
}

#[test]
fn a_batch_is_read_as_it_was_written() {
    let empty = Header { token: String::new(), rows: 0, created_ms: -1, ..entry().header };
    for why in [Why::Outage, Why::Shutdown, Why::Refused { code: u32::MAX }] {
        for body in [Bytes::new(), Bytes::from(vec![7; 100_000])] {
            let entry = Entry { header: Header { why, ..empty.clone() }, body };
            assert_eq!(read(&sealed(&entry)).unwrap(), entry);
        }
    }
    assert_eq!(read(&sealed(&entry())).unwrap(), entry());
}

#[test]
fn every_cut_and_every_flipped_bit_is_damage() {
    let bytes = sealed(&entry());
    for length in 0..bytes.len() {
        assert!(matches!(read(&bytes[..length]), Err(ReadError::Damaged)), "{length}");
    }
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        match read(&flipped) {
            Err(ReadError::Damaged) => {}
            Err(ReadError::OtherVersion(_)) => assert!((16..18).contains(&(bit / 8)), "{bit}"),
            other => panic!("bit {bit}: {other:?}"),
        }
    }
    assert!(matches!(read(&[&bytes[..], &[0]].concat()), Err(ReadError::Damaged)));
    let newer = [MAGIC, &(VERSION + 1).to_be_bytes()[..], &[0, 0], b"whatever comes then"].concat();
    assert!(
        matches!(read(&newer), Err(ReadError::OtherVersion(version)) if version == VERSION + 1)
    );
}

/// Made by somebody who can make checksums.
#[test]
fn wrong_headers_under_a_right_checksum_cause_no_panic_and_no_memory() {
    let bytes = seal(&entry()).unwrap();
    let content = &bytes[..bytes.len() - CHECKSUM_BYTES];
    let reseal = |header: &[u8]| {
        let length = u16::try_from(header.len()).unwrap().to_be_bytes();
        let content = [&content[..START_BYTES - 2], &length, header].concat();
        let checksum = Sha256::digest(&content);
        [&content[..], &checksum, &entry().body].concat()
    };
    let header = &content[START_BYTES..];
    assert_eq!(read(&reseal(header)).unwrap(), entry());
    for length in 0..header.len() {
        assert!(matches!(read(&reseal(&header[..length])), Err(ReadError::Damaged)), "{length}");
    }
    assert!(matches!(read(&reseal(&[header, &[0]].concat())), Err(ReadError::Damaged)));
    let body_length = header.len() - CHECKSUM_BYTES - 8;
    for bit in 0..header.len() * 8 {
        let mut flipped = header.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        // Token, target, rows and the like may be others; the body is not.
        if let Ok(other) = read(&reseal(&flipped)) {
            assert!(bit / 8 < body_length && other.body == entry().body, "{bit}");
        }
    }
    // A body of 2^63 bytes.
    let mut huge = header.to_vec();
    huge[body_length..body_length + 8].copy_from_slice(&(1_u64 << 63).to_be_bytes());
    assert!(matches!(read(&reseal(&huge)), Err(ReadError::Damaged)));
}

#[test]
fn a_token_that_does_not_fit_is_refused() {
    for length in [65_000, 65_536, 200_000] {
        let header = Header { token: "x".repeat(length), ..entry().header };
        assert_eq!(seal(&Entry { header, ..entry() }).is_some(), length == 65_000);
    }
}
