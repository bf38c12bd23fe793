// SPDX-License-Identifier: Apache-2.0
//! Columns for people.

/// Lays rows out in columns, each line indented, two spaces between columns, none at the end of a line.
pub(super) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut out = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        out.push_str(format!("  {}", cells.collect::<Vec<_>>().join("  ")).trim_end());
        out.push('\n');
    }
    out
}

/// Puts a note below each line that has one.
pub(super) fn noted<'a>(table: &str, notes: impl Iterator<Item = &'a str>) -> String {
    let mut out = String::new();
    for (line, note) in table.lines().zip(notes) {
        out.push_str(line);
        out.push('\n');
        if !note.is_empty() {
            out.push_str(&format!("      {note}\n"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["a", "long"], ["bb", ""], ["÷", "x"]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        let shown = table(&rows);
        assert_eq!(shown, "  a   long\n  bb\n  ÷   x\n");
        assert_eq!(
            noted(&shown, ["", "why", ""].into_iter()),
            "  a   long\n  bb\n      why\n  ÷   x\n"
        );
    }
}
