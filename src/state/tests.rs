use std::fs;

use super::*;
use crate::decode::{Datagram, Decoder, DecoderOptions};
use crate::flow::ChunkWriter;
use crate::traffic::{Field, IpfixHeader, MessageBuilder};

/// One exporter with two templates.
fn exporters() -> Arc<Exporters> {
    let exporters = Arc::new(Exporters::default());
    let options = DecoderOptions::default();
    let header = IpfixHeader { export_time_s: 1, sequence: 0, domain_id: 1 };
    let builder = MessageBuilder::ipfix(header).template(256, &[Field::new(1, 8)]);
    let payload = builder.template(257, &[Field::new(2, 8)]).finish();
    let exporter = [192, 0, 2, 1].into();
    let datagram = Datagram { exporter, source_port: 0, received_ms: unix_ms(), payload: &payload };
    Decoder::new(options, Arc::clone(&exporters)).decode(
        &datagram,
        Instant::now(),
        &mut ChunkWriter::new(1),
    );
    exporters
}

fn restored(directory: &StateDirectory) -> usize {
    let exporters = Exporters::default();
    directory.restore(&exporters);
    exporters.template_count()
}

#[test]
fn a_writer_that_is_stopped_has_written_and_a_file_is_replaced_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("made/by/the/writer");
    let directory = StateDirectory::new(&path);
    assert_eq!(restored(&directory), 0);
    let metrics = Metrics::default();
    for _ in 0..2 {
        let mut writer = StateWriter::start(directory.clone(), exporters(), &metrics).unwrap();
        writer.stop();
        writer.thread.join().unwrap();
        assert_eq!(restored(&directory), 2);
    }
    let names: Vec<_> =
        fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, [FILE_NAME]);
    assert!(metrics.render().contains("tidegate_state_templates 2"));
}

#[test]
fn a_file_that_cannot_be_used_is_set_aside_and_an_older_one_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let directory = StateDirectory::new(folder.path());
    for bytes in [&b"no state"[..], b"tidegate state\r\n\xff\xffof a newer version", b""] {
        fs::write(folder.path().join(FILE_NAME), bytes).unwrap();
        assert_eq!(restored(&directory), 0);
        assert!(!folder.path().join(FILE_NAME).exists());
        assert_eq!(fs::read(folder.path().join("templates.damaged")).unwrap(), bytes);
    }
    // Half a file that a crash left does not matter.
    fs::write(folder.path().join("templates.new"), "half").unwrap();
    directory.0.replace(&exporters().snapshot(unix_ms()).bytes).unwrap();
    assert_eq!(restored(&directory), 2);
}

#[test]
fn a_directory_that_cannot_be_written_is_counted_and_ends_nothing() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let metrics = Metrics::default();
    let directory = StateDirectory::new(file.path());
    assert_eq!(restored(&directory), 0);
    let mut writer = StateWriter::start(directory, exporters(), &metrics).unwrap();
    writer.stop();
    writer.thread.join().unwrap();
    let text = metrics.render();
    assert!(text.contains("tidegate_state_write_failures_total 2"), "{text}");
    assert!(text.contains("tidegate_state_last_success_timestamp_seconds 0"), "{text}");
}

#[test]
fn a_change_is_written_soon_and_changes_without_end_once_a_minute() {
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    let mut schedule = Schedule::new();
    assert!(schedule.is_due(at(0), 0));
    schedule.note_write(at(0), Some(0));
    assert!(!schedule.is_due(at(599), 0));
    assert!(schedule.is_due(at(600), 0), "when it was seen last");
    assert!(schedule.is_due(at(1), 1));

    let mut writes = 0;
    for second in 1..=600 {
        if schedule.is_due(at(second), second) {
            schedule.note_write(at(second), Some(second));
            writes += 1;
        }
    }
    assert!((10..=16).contains(&writes), "{writes}");
    assert!(!schedule.is_due(at(602), 601));

    // After a minute without changes the next one is written soon.
    schedule.note_write(at(602), Some(601));
    assert!(!schedule.is_due(at(663), 601));
    assert!(schedule.is_due(at(664), 602));

    schedule.note_write(at(664), None);
    assert!(!schedule.is_due(at(665), 602));
    assert!(schedule.is_due(at(666), 602), "a failed write is tried again");
}
