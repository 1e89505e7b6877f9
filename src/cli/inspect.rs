//! `tidegate inspect`: every field of a capture, and what becomes of each set.

use std::io::{BufWriter, Write, stdout};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;

use crate::capture::{Capture, CaptureError, Datagram};
use crate::inspect::{Inspector, read_raw};

/// Print every field of every record, set by set, and what tidegate makes of each set
///
/// FILE is a pcap or pcapng file, or holds export messages one behind the other, without the headers of
/// packets. Fields are read by the crate netflow_parser, whether a column of flows takes them or not; behind
/// "->" is what tidegate's own decoder does with the set. Records that netflow_parser leaves are cut out by
/// their template and say so; what has no template is shown as bytes. netflow_parser reads neither NetFlow v1
/// nor sFlow: of these the flows are shown that tidegate decodes. Times are UTC.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The capture or the messages
    file: PathBuf,

    /// Only datagrams from this address
    #[arg(long, value_name = "ADDRESS")]
    exporter: Option<IpAddr>,

    /// Stop after so many datagrams
    #[arg(long, value_name = "DATAGRAMS")]
    limit: Option<u64>,

    /// Only templates
    #[arg(long)]
    templates: bool,
}

impl Args {
    pub(super) fn run(self) -> Result<ExitCode> {
        let mut out = BufWriter::new(stdout().lock());
        let mut inspector = Inspector::new(self.templates);
        let mut shown = 0;
        let mut damage = None;
        for (number, datagram) in (1..).zip(datagrams(&self.file)?) {
            if self.limit.is_some_and(|limit| shown >= limit) {
                break;
            }
            match datagram {
                Ok(datagram) if self.is_meant(&datagram) => {
                    inspector.write(number, &datagram, &mut out)?;
                    shown += 1;
                }
                Ok(_) => {}
                Err(error) => {
                    damage =
                        Some(anyhow::Error::new(error).context(self.file.display().to_string()));
                    break;
                }
            }
        }
        inspector.finish(&mut out)?;
        out.flush()?;
        // What came before the damage was printed; the exit code still says that it is not all.
        damage.map_or(Ok(ExitCode::SUCCESS), Err)
    }

    fn is_meant(&self, datagram: &Datagram) -> bool {
        let source = datagram.source.ip().to_canonical();
        self.exporter.is_none_or(|exporter| exporter.to_canonical() == source)
    }
}

/// The datagrams of a capture, or the messages of a file that is none.
fn datagrams(path: &Path) -> Result<Box<dyn Iterator<Item = Result<Datagram, CaptureError>>>> {
    match Capture::open(path) {
        Ok(capture) => Ok(Box::new(capture)),
        Err(CaptureError::NotACapture { .. }) => Ok(Box::new(read_raw(path)?.into_iter().map(Ok))),
        Err(error) => Err(error.into()),
    }
}
