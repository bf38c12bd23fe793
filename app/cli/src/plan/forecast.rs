// SPDX-License-Identifier: Apache-2.0
//! `helio plan forecast`: a workload run in virtual time under every combination asked for, and the answer.

use super::fragment;
use super::load::load;
use super::table::table;
use crate::args::Forecast;
use crate::failure::failed;
use crate::newfile;
use crate::verbs::print;
use anyhow::{Result, bail};
use helio_forecast::{
    Answer, Cell, Deviation, Grid, PAGE_HEAD, Sampling, answer, cell_json, deviations, page,
    table_rows,
};
use helio_workload::Workload;
use serde_json::json;
use std::fmt::Write;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::time::Instant;

/// Runs, shows, and writes what is asked for. Exits with 1 where goals were given and nothing meets them.
pub(super) fn run(asked: &Forecast) -> Result<ExitCode> {
    let (workload, mut about) = workload(asked)?;
    let threads = asked.threads.or_else(|| std::thread::available_parallelism().ok());
    let threads = threads.unwrap_or(NonZeroUsize::MIN);
    if let Some(file) = &asked.html {
        newfile::check_ours(file, "--html", Some(PAGE_HEAD))?;
    }
    if let Some(file) = &asked.out {
        newfile::check(file, "--out")?;
    }
    if let (Some(file), Some(group)) = (&asked.config, &asked.group) {
        fragment::check(file, group)?;
    }
    let grid = grid(asked, asked.sample.unwrap_or(Sampling::Whole));
    let began = Instant::now();
    // Which workload it is, and what its file lacks, is said before what it comes to: that is the last line.
    let of = about[..about.len() - 1].join("; ");
    let cells = grid.run(&workload, threads);
    let cells = cells.map_err(failed(of, "change what it names; `helio man plan forecast`"))?;
    let took = began.elapsed();
    let checked =
        if asked.check_sample { check(asked, &workload, threads, &cells)? } else { Vec::new() };
    let answer = asked.goal.as_ref().map(|goals| answer(&cells, goals));
    about.push(format!(
        "{} runs on {threads} threads in {:.1} s, seed {}",
        cells.len(),
        took.as_secs_f64(),
        asked.seed
    ));
    if let Some(file) = &asked.html {
        let page = page(&about, &grid.outages, &cells, answer.as_ref());
        newfile::replace(file, "--html", PAGE_HEAD, &page)?;
    }
    let chosen = answer.as_ref().and_then(|answer| answer.cell);
    if let (Some(file), Some(group), Some(out), Some(at)) =
        (&asked.config, &asked.group, &asked.out, chosen)
    {
        fragment::rewrite(file, group, &cells[at].point, out)?;
    }
    if asked.json {
        print(&as_json(&about, &cells, answer.as_ref(), &checked)?)?;
    } else {
        print(&as_text(&about, &cells, answer.as_ref(), &checked))?;
    }
    let met = answer.is_none_or(|answer| answer.cell.is_some());
    Ok(if met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The workload, and what is to be said of it.
fn workload(asked: &Forecast) -> Result<(Workload, Vec<String>)> {
    let (workload, mut about) = match (&asked.workload, &asked.synthetic) {
        (Some(path), _) => {
            let reading = load(path)?;
            (reading.workload, [vec![path.display().to_string()], reading.remarks].concat())
        }
        (None, Some(synthetic)) => (
            synthetic
                .draw()
                .map_err(failed("--synthetic", "`helio man plan forecast` describes its values"))?,
            vec!["a synthetic workload".to_owned()],
        ),
        (None, None) => bail!("no workload is named\n  hint: name a trace, or give --synthetic"),
    };
    let writes = workload.requests().iter().filter(|request| request.kind.changes()).count();
    let volumes = workload.volumes().len();
    about.push(format!(
        "{} requests, {writes} of them writes, over {:?} on {volumes} volume{}",
        workload.requests().len(),
        workload.span(),
        if volumes == 1 { "" } else { "s" }
    ));
    Ok((workload, about))
}

fn grid(asked: &Forecast, sampling: Sampling) -> Grid {
    Grid {
        modes: asked.modes.clone(),
        queues: asked.queues.clone(),
        buffers: asked.buffers.clone(),
        links: asked.link.clone(),
        outages: asked.outage.clone(),
        disks: [asked.disk, asked.peer_disk.unwrap_or(asked.disk)],
        depth: asked.depth,
        sampling,
        patience: asked.patience,
        seed: asked.seed,
    }
}

/// How far each cell is from the whole workload's.
fn check(
    asked: &Forecast,
    workload: &Workload,
    threads: NonZeroUsize,
    cells: &[Cell],
) -> Result<Vec<Vec<Deviation>>> {
    let whole = grid(asked, Sampling::Whole).run(workload, threads);
    let whole = whole.map_err(failed("--check-sample", "leave it out"))?;
    let pairs = cells.iter().zip(&whole);
    Ok(pairs
        .map(|(sampled, whole)| match (&sampled.figures, &whole.figures) {
            (Ok(sampled), Ok(whole)) => deviations(sampled, whole),
            _ => Vec::new(),
        })
        .collect())
}

fn as_text(
    about: &[String],
    cells: &[Cell],
    answer: Option<&Answer>,
    checked: &[Vec<Deviation>],
) -> String {
    let mut out = about.join("\n") + "\n\n";
    out.push_str(&table(&table_rows(cells)));
    for (cell, deviations) in cells.iter().zip(checked) {
        let point = &cell.point;
        let _infallible = writeln!(
            out,
            "\n{} {} {}: samples against the whole",
            point.mode, point.queue, point.link.name
        );
        let rows: Vec<_> = deviations
            .iter()
            .map(|d| {
                vec![
                    d.what.to_owned(),
                    d.sampled.clone(),
                    d.whole.clone(),
                    format!("{:+.1} %", d.percent),
                ]
            })
            .collect();
        out.push_str(&table(&rows));
    }
    let Some(answer) = answer else { return out };
    out.push('\n');
    if let Some(at) = answer.cell {
        let point = &cells[at].point;
        let _infallible = writeln!(
            out,
            "Take {}, queue {}, buffers {}, one stream, no compression",
            point.mode, point.queue, point.buffer
        );
    }
    for line in answer.reasons.iter().chain(&answer.hints) {
        let _infallible = writeln!(out, "  - {line}");
    }
    if let Some(at) = answer.cell {
        let _infallible = write!(out, "\n{}", fragment::fragment("GROUP", &cells[at].point));
    }
    out
}

fn as_json(
    about: &[String],
    cells: &[Cell],
    answer: Option<&Answer>,
    checked: &[Vec<Deviation>],
) -> Result<String> {
    let answer = answer.map(|answer| {
        let point = answer.cell.map(|at| &cells[at].point);
        json!({
            "cell": answer.cell,
            "mode": point.map(|point| point.mode.word()),
            "queue": point.map(|point| point.queue.to_string()),
            "buffer": point.map(|point| point.buffer.to_string()),
            "streams": point.map(|_| 1),
            "compression": point.map(|_| "none"),
            "reasons": answer.reasons,
            "hints": answer.hints,
            "config": point.map(|point| fragment::fragment("GROUP", point)),
        })
    });
    let deviation = |d: &Deviation| json!({ "what": d.what, "sampled": d.sampled, "whole": d.whole, "percent": d.percent });
    let checked: Vec<Vec<_>> =
        checked.iter().map(|of| of.iter().map(deviation).collect()).collect();
    let told = json!({
        "about": about,
        "cells": cells.iter().map(cell_json).collect::<Vec<_>>(),
        "answer": answer,
        "samples_against_whole": checked,
    });
    Ok(serde_json::to_string_pretty(&told)? + "\n")
}
