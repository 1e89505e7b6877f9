//! Datagrams that no exporter should send: valid ones, mutated, millions of times.
//!
//! A few seconds of it are a test; `make test-long` is 50 million inputs. The seed is printed, and
//! `HOSTILE_SEED` and `HOSTILE_INPUTS` repeat a run.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(unreachable_pub, reason = "the fuzz targets use these modules too")]
#![expect(dead_code, reason = "the same")]

mod mutate;
mod native;
mod seeds;
mod sflow;
mod trial;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fastrand::Rng;
use tidegate::capture::Capture;
use tidegate::decode::Protocol;

use self::trial::{EXPORTERS, Trial};

/// Inputs of the short form.
const INPUTS: u64 = 200_000;

/// A decoder is given so many and then replaced, so that what it has learned does not fill up.
const INPUTS_PER_TRIAL: u64 = 20_000;

/// Datagrams taken of one capture; one capture would outweigh all others else.
const DATAGRAMS_PER_CAPTURE: usize = 64;

/// Longest time of one datagram. An ordinary one takes some microseconds; what is above is the machine's
/// scheduling, but a hang would be here.
const TIME_MAX: Duration = Duration::from_secs(2);

/// Resident memory at any time, seeds and captures included. What decoding keeps of four exporters is below
/// 100 MiB (docs/decoding.md).
const RESIDENT_KIB_MAX: u64 = 400 << 10;

#[test]
fn mutated_datagrams_cause_no_panic_no_hang_and_no_growth() {
    let inputs = variable("HOSTILE_INPUTS").unwrap_or(INPUTS);
    let seed = variable("HOSTILE_SEED").unwrap_or(7);
    let streams = all_streams();
    println!("HOSTILE_SEED={seed} HOSTILE_INPUTS={inputs}, {} seeds and captures", streams.len());
    let mut run = Run {
        rng: Rng::with_seed(seed),
        seeds: seeds::streams().len(),
        slowest: Duration::ZERO,
        resident_kib: 0,
    };
    let start = Instant::now();
    let (mut done, mut flows, mut learned) = (0, 0, 0);
    let mut resident_kib = Vec::new();
    while done < inputs {
        let count = INPUTS_PER_TRIAL.min(inputs - done);
        let tally = run.trial(&streams, count);
        done += count;
        flows += tally.flows;
        learned += tally.templates_learned;
        resident_kib.push(run.resident_kib);
        if done % 1_000_000 == 0 {
            let (s, kib) = (start.elapsed().as_secs(), run.resident_kib);
            println!("{done} inputs, {s} s, {flows} flows, {learned} templates, {kib} KiB");
        }
    }
    let elapsed = start.elapsed();
    println!(
        "{done} inputs in {elapsed:?}, {:.0}/s: {flows} flows, {learned} templates learned, slowest \
         {:?}, resident at most {} KiB",
        done as f64 / elapsed.as_secs_f64(),
        run.slowest,
        resident_kib.iter().max().unwrap(),
    );
    assert!(flows > done / 2, "most of it was refused: the mutations are too rough");
    // Every trial begins with nothing, so the last ones must not need more than the first ones did.
    let (first, last) = resident_kib.split_at(resident_kib.len() / 2);
    let highest = |trials: &[u64]| trials.iter().copied().max().unwrap_or(0);
    assert!(last.len() < 8 || highest(last) <= highest(first) * 5 / 4 + 16_384, "memory grows");
}

/// What goes through all trials.
struct Run {
    rng: Rng,
    /// How many of the streams are seeds; they come first.
    seeds: usize,
    slowest: Duration,
    resident_kib: u64,
}

impl Run {
    /// Sends `count` datagrams to a decoder that knows nothing.
    fn trial(&mut self, streams: &[Vec<Vec<u8>>], count: u64) -> tidegate::decode::Tally {
        let rng = &mut self.rng;
        let mut trial = Trial::new(rng.bool(), rng.bool());
        let mut payload = Vec::new();
        let mut sent = 0;
        while sent < count {
            // The seeds have every kind of datagram, the captures many of a few kinds.
            let is_seed = rng.bool();
            let choices = if is_seed { self.seeds } else { streams.len() };
            let stream = &streams[rng.usize(0..choices)];
            let first = rng.usize(0..stream.len());
            let exporter = rng.usize(0..EXPORTERS);
            for datagram in stream[first..].iter().take(8) {
                payload.clear();
                payload.extend_from_slice(datagram);
                if rng.u8(..) < 200 {
                    let other = &streams[rng.usize(0..streams.len())];
                    let other = &other[rng.usize(0..other.len())];
                    mutate::mutate(rng, &mut payload, other);
                }
                let start = Instant::now();
                trial.decode(exporter, &payload);
                self.slowest = self.slowest.max(start.elapsed());
                sent += 1;
            }
            assert!(self.slowest < TIME_MAX, "{:?} for {payload:02x?}", self.slowest);
            match rng.u16(..) {
                0..100 => trial.settle(),
                100..110 => trial.restart(),
                110..200 => trial.wait(Duration::from_secs(rng.u64(1..700))),
                200..210 => trial.wait(Duration::from_secs(rng.u64(1..50) * 3_600)),
                210..260 => trial.reconnect(),
                _ => {}
            }
        }
        self.resident_kib = resident_kib();
        assert!(self.resident_kib < RESIDENT_KIB_MAX, "{} KiB", self.resident_kib);
        trial.finish()
    }
}

/// Seeds for the fuzz targets: `HOSTILE_CORPUS=fuzz/corpus cargo test --test hostile corpus`. An input is a
/// sequence of datagrams, each behind its length in two bytes; of the state a file without head and checksum.
#[test]
fn corpus_of_the_fuzz_targets() {
    let directory = tempfile::tempdir().unwrap();
    let given = std::env::var_os("HOSTILE_CORPUS").map(PathBuf::from);
    let directory = given.unwrap_or_else(|| directory.path().to_owned());
    let put = |target: &str, number: usize, input: &[u8]| {
        let folder = directory.join(target);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("seed-{number}")), input).unwrap();
    };
    for (number, stream) in seeds::streams().iter().enumerate() {
        let with_length = |datagram: &Vec<u8>| {
            [&u16::try_from(datagram.len()).unwrap().to_be_bytes()[..], datagram].concat()
        };
        let input: Vec<u8> = stream.datagrams.iter().flat_map(with_length).collect();
        put(stream.target, number, &input);
        put("encode", number, &input);
        put("state", number, &seeds::state(stream));
        put("capture", number, &seeds::pcap(stream));
    }
}

fn variable(name: &str) -> Option<u64> {
    Some(std::env::var(name).ok()?.parse().unwrap())
}

/// The seeds, and the captures if there are any.
fn all_streams() -> Vec<Vec<Vec<u8>>> {
    let mut streams: Vec<_> = seeds::streams().into_iter().map(|s| s.datagrams).collect();
    let folder = std::env::var_os("TIDEGATE_CAPTURES").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/captures"),
        PathBuf::from,
    );
    let Ok(folder) = std::fs::read_dir(folder) else { return streams };
    let mut files: Vec<_> = folder.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "pcap")) {
        let datagrams = Capture::open(file).unwrap().filter_map(Result::ok);
        let payloads = datagrams.map(|datagram| datagram.payload);
        let payloads = payloads.filter(|payload| Protocol::of(payload).is_some());
        let payloads: Vec<_> = payloads.take(DATAGRAMS_PER_CAPTURE).collect();
        if !payloads.is_empty() {
            streams.push(payloads);
        }
    }
    streams
}

/// Resident memory of this process.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
