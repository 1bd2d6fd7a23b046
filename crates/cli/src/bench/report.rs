//! What a measurement says: configuration, figures, remarks.

use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};

use super::figure::{Figure, digits};
use super::machine;

/// Result of one workload.
#[derive(Clone, Debug)]
pub struct Report {
    /// Name of the subcommand.
    pub name: &'static str,
    /// What was run, name and value.
    pub configuration: Vec<(&'static str, String)>,
    /// What came out.
    pub figures: Vec<Figure>,
    /// What a reader must know to judge it.
    pub remarks: Vec<String>,
}

impl Report {
    /// An empty report.
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            configuration: Vec::new(),
            figures: Vec::new(),
            remarks: Vec::new(),
        }
    }

    /// Adds a line of configuration.
    pub fn configured(&mut self, name: &'static str, value: impl Into<String>) {
        self.configuration.push((name, value.into()));
    }

    /// Adds a figure.
    pub fn push(&mut self, figure: Figure) {
        self.figures.push(figure);
    }

    /// Prints it as a table.
    pub fn print(&self) {
        println!("mainstem bench {}", self.name);
        println!("  {}", machine::describe());
        for (name, value) in &self.configuration {
            println!("  {name}: {value}");
        }
        let mut table = Table::new();
        table.load_style(presets::UTF8_BORDERS_ONLY);
        table.set_header(["figure", "median", "min", "max", "unit", "target", "met"]);
        for figure in &self.figures {
            table.add_row([
                figure.name.clone(),
                digits(figure.median()),
                digits(figure.min()),
                digits(figure.max()),
                figure.unit.to_owned(),
                figure.target_text(),
                figure.verdict().to_owned(),
            ]);
        }
        for column in 1..=3 {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        println!("{table}");
        for remark in &self.remarks {
            println!("  {remark}");
        }
        println!();
    }
}

/// The reports as one Markdown table, for docs/benchmarks.md.
pub fn markdown(reports: &[Report]) -> String {
    let mut out = String::from(
        "| bench | figure | median | min – max | unit | target | met |\n|---|---|---|---|---|---|---|\n",
    );
    for report in reports {
        for figure in &report.figures {
            out.push_str(&format!(
                "| {} | {} | {} | {} – {} | {} | {} | {} |\n",
                report.name,
                figure.name,
                digits(figure.median()),
                digits(figure.min()),
                digits(figure.max()),
                figure.unit,
                figure.target_text(),
                figure.verdict(),
            ));
        }
    }
    for report in reports {
        for remark in &report.remarks {
            out.push_str(&format!("\n{}: {remark}\n", report.name));
        }
    }
    out
}

/// The reports for comparison with a later run.
pub fn json(reports: &[Report]) -> Value {
    let reports: Vec<Value> = reports
        .iter()
        .map(|report| {
            let configuration: serde_json::Map<String, Value> = report
                .configuration
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone().into()))
                .collect();
            json!({
                "bench": report.name,
                "configuration": configuration,
                "figures": report.figures.iter().map(Figure::to_json).collect::<Vec<_>>(),
                "remarks": report.remarks,
            })
        })
        .collect();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "date": chrono::Utc::now().to_rfc3339(),
        "machine": machine::describe(),
        "reports": reports,
    })
}
