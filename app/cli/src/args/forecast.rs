// SPDX-License-Identifier: Apache-2.0
//! What `helio plan forecast` is told.

use super::number::{size, whole};
use clap::{ArgGroup, Args};
use core::time::Duration;
use helio_forecast::{Buffer, Goals, Link, Queue, Sampling};
use helio_netmodel::Outage;
use helio_twin::DiskModel;
use helio_units::{Mode, Moment};
use helio_workload::Synthetic;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

/// What is run, and what of it is varied.
#[derive(Clone, Debug, Args)]
#[command(group(ArgGroup::new("requests").required(true)))]
pub struct Forecast {
    /// A recorded workload: a trace of ours, blkparse's text, an iolog of fio, or CSV.
    #[arg(value_name = "WORKLOAD", group = "requests")]
    pub workload: Option<PathBuf>,
    /// A drawn one: rate=2000,size=4KiB,for=1h and more.
    #[arg(long, value_name = "FIELDS", group = "requests", value_parser = synthetic)]
    pub synthetic: Option<Synthetic>,
    /// The link: rtt=32ms,rate=4.8MB/s, or t3,rtt=40ms, or weather=FILE as `helio lab record` wrote it; several times for
    /// several.
    #[arg(long, value_name = "FIELDS", required = true, value_parser = link)]
    pub link: Vec<Link>,
    /// Modes to run.
    #[arg(long, value_name = "MODE,...", value_delimiter = ',', value_parser = super::mode,
          default_value = "sync,nearsync,async")]
    pub modes: Vec<Mode>,
    /// Memory queues to run: sizes, or auto as the daemon chooses it.
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',', value_parser = queue, default_value = "auto")]
    pub queues: Vec<Queue>,
    /// Socket windows to run: sizes, or auto for what Linux lets a buffer grow to.
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',', value_parser = buffer, default_value = "auto")]
    pub buffers: Vec<Buffer>,
    /// The link is down, from so long after the beginning on, for so long: 10min+30s; several times for several.
    #[arg(long, value_name = "AT+FOR", value_parser = outage)]
    pub outage: Vec<Outage>,
    /// The disk: nvme, ssd or hdd, or its times: write=80us..800us,flush=1ms..6ms.
    #[arg(long, value_name = "FIELDS", value_parser = disk, default_value = "ssd")]
    pub disk: DiskModel,
    /// The peer's disk; without it, the same.
    #[arg(long, value_name = "FIELDS", value_parser = disk)]
    pub peer_disk: Option<DiskModel>,
    /// Requests the application has under way at most.
    #[arg(long, value_name = "NUMBER", default_value_t = helio_forecast::DEPTH,
          value_parser = whole::<u32>(1, 65536))]
    pub depth: u32,
    /// Run so many windows of the workload and the busiest, not all of it: 6x5min.
    #[arg(long, value_name = "COUNTxTIME", value_parser = sampling)]
    pub sample: Option<Sampling>,
    /// Run all of it too, and show how far the samples are from it.
    #[arg(long, requires = "sample")]
    pub check_sample: bool,
    /// What must hold, for an answer: latency-p99=5ms,rpo=10s,resync=1min.
    #[arg(long, value_name = "FIELDS", value_parser = goals)]
    pub goal: Option<Goals>,
    /// The configuration file that the answer changes.
    #[arg(long, value_name = "FILE", requires_all = ["goal", "group", "out"])]
    pub config: Option<PathBuf>,
    /// The group in it.
    #[arg(long, value_name = "NAME", requires = "config")]
    pub group: Option<String>,
    /// Where the changed file is written.
    #[arg(long, value_name = "FILE", requires = "config")]
    pub out: Option<PathBuf>,
    /// Write one page with plots of every run there.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
    /// How long a run goes on behind the workload until everything is answered and the copies are level.
    #[arg(long, value_name = "TIME", value_parser = super::duration, default_value = "10min")]
    pub patience: Duration,
    /// Threads that run combinations; without it, one per processor.
    #[arg(long, value_name = "NUMBER", value_parser = super::number::threads)]
    pub threads: Option<NonZeroUsize>,
    /// Decides what is left to chance.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
}

fn synthetic(text: &str) -> Result<Synthetic, String> {
    helio_forecast::synthetic(text).map_err(|error| error.to_string())
}

fn link(text: &str) -> Result<Link, String> {
    let file = text.split(',').find_map(|field| field.strip_prefix("weather="));
    let link = match file {
        Some(file) => {
            let weather = crate::lab::weather_of(Path::new(file));
            Link::replaying(text, weather.map_err(|why| format!("{why:#}"))?)
        }
        None => text.parse(),
    };
    link.map_err(|why| why.to_string())
}

fn disk(text: &str) -> Result<DiskModel, String> {
    helio_forecast::disk(text).map_err(|error| error.to_string())
}

/// At least one sector, as of a daemon.
fn queue(text: &str) -> Result<Queue, String> {
    if text == "auto" { Ok(Queue::Auto) } else { size(512, u64::MAX)(text).map(Queue::Bytes) }
}

fn buffer(text: &str) -> Result<Buffer, String> {
    match text {
        "auto" => Ok(Buffer::Auto),
        size => match super::bytes(size)? {
            small if small.0 < 4096 => {
                Err("a window of less than 4 KiB carries nothing".to_owned())
            }
            size => Ok(Buffer::Bytes(size)),
        },
    }
}

fn outage(text: &str) -> Result<Outage, String> {
    let (at, lasting) = text.split_once('+').ok_or("write AT+FOR, as 10min+30s")?;
    let from = Moment::ZERO + super::duration(at)?;
    let lasting = super::duration(lasting)?;
    if lasting.is_zero() {
        return Err("an outage of no time".to_owned());
    }
    Ok(Outage { from, to: from + lasting })
}

fn sampling(text: &str) -> Result<Sampling, String> {
    let (count, each) = text.split_once('x').ok_or("write COUNTxTIME, as 6x5min")?;
    let count = count.parse().ok().filter(|count| (1..=1000).contains(count));
    let count = count.ok_or("from 1 to 1000 windows")?;
    let each = super::duration(each)?;
    if each < Duration::from_secs(1) {
        return Err("a window of less than a second tells little".to_owned());
    }
    // What a queue holds has had that long to build up, and a full one to show.
    Ok(Sampling::Windows { count, each, lead: (each / 5).max(Duration::from_secs(10)) })
}

fn goals(text: &str) -> Result<Goals, String> {
    let mut goals = Goals::default();
    for field in text.split(',') {
        let (key, value) = field.split_once('=').unwrap_or((field, ""));
        let place = match key {
            "latency-p99" => &mut goals.latency_p99,
            "rpo" => &mut goals.rpo,
            "resync" => &mut goals.resync,
            _ => return Err(format!("{field}: write latency-p99=, rpo= or resync=")),
        };
        *place = Some(super::duration(value).map_err(|error| format!("{field}: {error}"))?);
    }
    Ok(goals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_sense_is_refused_with_what_would() {
        assert!(outage("10min+30s").is_ok_and(|outage| outage.to.0 == 630_000_000_000));
        assert!(outage("10min").is_err_and(|told| told.contains("AT+FOR")));
        assert!(outage("1s+0s").is_err());
        assert!(
            sampling("6x5min").is_ok() && sampling("0x5min").is_err() && sampling("6x1ms").is_err()
        );
        assert!(goals("latency-p99=5ms,rpo=10s").is_ok_and(|goals| goals.resync.is_none()));
        assert!(goals("latency=5ms").is_err_and(|told| told.starts_with("latency=5ms")));
        assert!(goals("rpo=5").is_err_and(|told| told.starts_with("rpo=5")));
        assert!(buffer("1KiB").is_err() && queue("64").is_err());
    }
}
