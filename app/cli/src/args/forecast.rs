// SPDX-License-Identifier: Apache-2.0
//! The command line of `helio plan forecast`.

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

/// Workload, link and disks of a forecast, and the settings to vary.
#[derive(Clone, Debug, Args)]
#[command(group(ArgGroup::new("requests").required(true)))]
pub struct Forecast {
    /// Trace file: helio trace, blkparse text, fio iolog or CSV.
    #[arg(value_name = "WORKLOAD", group = "requests")]
    pub workload: Option<PathBuf>,
    /// Synthetic workload instead of a trace, for example rate=2000,size=4KiB,for=1h.
    #[arg(long, value_name = "FIELDS", group = "requests", value_parser = synthetic)]
    pub synthetic: Option<Synthetic>,
    /// Link, for example rtt=32ms,rate=40Mbit/s or t3,rtt=40ms; may be repeated.
    ///
    /// recording=FILE replays a recording of `helio lab record`.
    #[arg(long, value_name = "FIELDS", required = true, value_parser = link)]
    pub link: Vec<Link>,
    /// Modes to forecast.
    #[arg(long, value_name = "MODE,...", value_delimiter = ',', value_parser = mode,
          default_value = "sync,nearsync,async")]
    pub modes: Vec<Mode>,
    /// Queue sizes to forecast, at least 512B; auto: as the daemon chooses.
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',', value_parser = queue, default_value = "auto")]
    pub queues: Vec<Queue>,
    /// Socket windows to forecast, at least 4KiB; auto: as Linux autotunes.
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',', value_parser = buffer, default_value = "auto")]
    pub buffers: Vec<Buffer>,
    /// Link outage, for example 10min+30s (after 10 min, for 30 s); may be repeated.
    #[arg(long, value_name = "START+DURATION", value_parser = outage)]
    pub outage: Vec<Outage>,
    /// Disk: nvme, ssd, hdd, or MEDIAN..P99 such as write=80us..800us,flush=1ms..6ms.
    #[arg(long, value_name = "FIELDS", value_parser = disk, default_value = "ssd")]
    pub disk: DiskModel,
    /// Disk of the peer; default: same as --disk.
    #[arg(long, value_name = "FIELDS", value_parser = disk)]
    pub peer_disk: Option<DiskModel>,
    /// Maximum number of concurrent requests, 1 to 65536.
    #[arg(long, value_name = "NUMBER", default_value_t = helio_forecast::DEPTH,
          value_parser = whole::<u32>(1, 65536))]
    pub depth: u32,
    /// Run only samples of the workload, for example 6x5min (6 of 5 min).
    ///
    /// 1 to 1000 samples of at least 1 s. The busiest window is always added.
    #[arg(long, value_name = "COUNTxTIME", value_parser = sampling)]
    pub sample: Option<Sampling>,
    /// Also run the whole workload and show the error of the samples.
    #[arg(long, requires = "sample")]
    pub check_sample: bool,
    /// Recommend a run that meets these goals: latency-p99=5ms,rpo=10s,resync=1min.
    #[arg(long, value_name = "FIELDS", value_parser = goals)]
    pub goal: Option<Goals>,
    /// Configuration file to change as recommended; it is not overwritten.
    #[arg(long, value_name = "FILE", requires_all = ["goal", "group", "out"])]
    pub config: Option<PathBuf>,
    /// Group in the configuration file.
    #[arg(long, value_name = "NAME", requires = "config")]
    pub group: Option<String>,
    /// New file for the changed configuration.
    #[arg(long, value_name = "FILE", requires = "config")]
    pub out: Option<PathBuf>,
    /// Write an HTML page with plots of every run.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Maximum time after the workload until the copies are in sync.
    #[arg(long, value_name = "TIME", value_parser = super::duration, default_value = "10min")]
    pub patience: Duration,
    /// Number of threads, 1 to 4096; default: one per processor.
    #[arg(long, value_name = "NUMBER", value_parser = super::number::threads)]
    pub threads: Option<NonZeroUsize>,
    /// Seed of the random numbers; the same seed gives the same result.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
}

fn synthetic(text: &str) -> Result<Synthetic, String> {
    helio_forecast::synthetic(text).map_err(|error| error.to_string())
}

fn link(text: &str) -> Result<Link, String> {
    let file = text.split(',').find_map(|field| field.strip_prefix("recording="));
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

/// Mode periodic sends no stream of writes, which is what a forecast is about.
fn mode(word: &str) -> Result<Mode, String> {
    let mode = Mode::from_word(word).filter(|mode| Mode::IN_ORDER.contains(mode));
    mode.ok_or_else(|| "expected one of sync, nearsync, async".to_owned())
}

/// A queue holds at least one sector, as in the daemon.
fn queue(text: &str) -> Result<Queue, String> {
    if text == "auto" { Ok(Queue::Auto) } else { size(512, u64::MAX)(text).map(Queue::Bytes) }
}

fn buffer(text: &str) -> Result<Buffer, String> {
    match text {
        "auto" => Ok(Buffer::Auto),
        size => match super::bytes(size)? {
            small if small.0 < 4096 => Err("the window must be at least 4 KiB".to_owned()),
            size => Ok(Buffer::Bytes(size)),
        },
    }
}

fn outage(text: &str) -> Result<Outage, String> {
    let (at, lasting) =
        text.split_once('+').ok_or("expected START+DURATION, for example 10min+30s")?;
    let from = Moment::ZERO + super::duration(at)?;
    let lasting = super::duration(lasting)?;
    if lasting.is_zero() {
        return Err("the duration of the outage must be greater than zero".to_owned());
    }
    Ok(Outage { from, to: from + lasting })
}

fn sampling(text: &str) -> Result<Sampling, String> {
    let (count, each) = text.split_once('x').ok_or("expected COUNTxTIME, for example 6x5min")?;
    let count = count.parse().ok().filter(|count| (1..=1000).contains(count));
    let count = count.ok_or("the number of samples must be from 1 to 1000")?;
    let each = super::duration(each)?;
    if each < Duration::from_secs(1) {
        return Err("a sample must be at least 1 s".to_owned());
    }
    // The lead lets the queue reach the level that it has in a run of the whole workload.
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
            _ => return Err(format!("{field}: expected latency-p99=, rpo= or resync=")),
        };
        *place = Some(super::duration(value).map_err(|error| format!("{field}: {error}"))?);
    }
    Ok(goals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_values_are_refused_with_the_expected_form() {
        assert!(outage("10min+30s").is_ok_and(|outage| outage.to.0 == 630_000_000_000));
        assert!(outage("10min").is_err_and(|error| error.contains("START+DURATION")));
        assert!(outage("1s+0s").is_err());
        assert!(
            sampling("6x5min").is_ok() && sampling("0x5min").is_err() && sampling("6x1ms").is_err()
        );
        assert!(goals("latency-p99=5ms,rpo=10s").is_ok_and(|goals| goals.resync.is_none()));
        assert!(goals("latency=5ms").is_err_and(|error| error.starts_with("latency=5ms")));
        assert!(mode("async").is_ok() && mode("periodic").is_err());
        assert!(goals("rpo=5").is_err_and(|error| error.starts_with("rpo=5")));
        assert!(buffer("1KiB").is_err() && queue("64").is_err());
    }
}
