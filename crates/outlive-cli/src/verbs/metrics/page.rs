//! What was read at a moment, as Prometheus reads it: the text format, or OpenMetrics.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabel, EncodeLabelSet, LabelSetEncoder, prometheus_text, text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::{Registry, Unit};

use super::table::{ALL, Id, Of};

/// A form of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus' own text, version 0.0.4: what node_exporter and old programs read.
    Text,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// Returns what HTTP calls it.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Text => prometheus_text::CONTENT_TYPE,
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// A value.
#[derive(Clone, Copy, Debug)]
pub enum Value {
    Whole(u64),
    Seconds(f64),
}

impl From<u64> for Value {
    fn from(value: u64) -> Value {
        Value::Whole(value)
    }
}

impl From<u32> for Value {
    fn from(value: u32) -> Value {
        Value::Whole(value.into())
    }
}

impl From<usize> for Value {
    fn from(value: usize) -> Value {
        Value::Whole(value as u64)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Value {
        Value::Whole(value.into())
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Value {
        Value::Seconds(value)
    }
}

/// A thing, as labels name it.
#[derive(Debug)]
pub struct Thing {
    pub kind: String,
    pub name: String,
}

/// A value with its labels.
#[derive(Debug)]
struct Sample {
    thing: Option<Arc<Thing>>,
    /// The values of the metric's further labels, in the table's order.
    more: Vec<String>,
    value: Value,
}

/// The values of all metrics at a moment.
#[derive(Debug)]
pub struct Page {
    domain: String,
    samples: BTreeMap<Id, Vec<Sample>>,
}

impl Page {
    /// Returns an empty one, for the domain of that name.
    pub fn new(domain: String) -> Page {
        Page { domain, samples: BTreeMap::new() }
    }

    /// Adds a value of the domain.
    pub fn add(&mut self, id: Id, more: &[&str], value: impl Into<Value>) {
        self.push(id, None, more, value.into());
    }

    /// Adds a value of a thing.
    pub fn add_of(&mut self, id: Id, thing: &Arc<Thing>, more: &[&str], value: impl Into<Value>) {
        self.push(id, Some(thing.clone()), more, value.into());
    }

    fn push(&mut self, id: Id, thing: Option<Arc<Thing>>, more: &[&str], value: Value) {
        let metric = &ALL[id as usize];
        debug_assert_eq!(metric.of == Of::Thing, thing.is_some(), "{id:?}");
        debug_assert_eq!(metric.labels.len(), more.len(), "{id:?}");
        let more = more.iter().map(|&value| value.to_owned()).collect();
        self.samples.entry(id).or_default().push(Sample { thing, more, value });
    }

    /// Returns the page as text.
    pub fn encode(self, format: Format) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut page = String::new();
        // A string takes all that is written to it.
        let _ = match format {
            Format::Text => prometheus_text::encode(&mut page, &registry),
            Format::OpenMetrics => text::encode(&mut page, &registry),
        };
        page
    }
}

/// The labels of a sample.
struct Labels<'a> {
    domain: &'a str,
    names: &'static [&'static str],
    sample: &'a Sample,
}

impl EncodeLabelSet for Labels<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        ("domain", self.domain).encode(encoder.encode_label())?;
        if let Some(thing) = &self.sample.thing {
            ("kind", thing.kind.as_str()).encode(encoder.encode_label())?;
            ("name", thing.name.as_str()).encode(encoder.encode_label())?;
        }
        for (name, value) in self.names.iter().zip(&self.sample.more) {
            (*name, value.as_str()).encode(encoder.encode_label())?;
        }
        Ok(())
    }
}

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for (&id, samples) in &self.samples {
            let metric = &ALL[id as usize];
            // The encoder puts the unit behind the name.
            let units = [("_bytes", Unit::Bytes), ("_seconds", Unit::Seconds)];
            let of_unit =
                |(suffix, unit): (&str, Unit)| Some((metric.name.strip_suffix(suffix)?, unit));
            let found = units.into_iter().find_map(of_unit);
            let (name, unit) = match &found {
                Some((name, unit)) => (*name, Some(unit)),
                None => (metric.name, None),
            };
            let kind = if metric.is_counter { MetricType::Counter } else { MetricType::Gauge };
            let mut family = encoder.encode_descriptor(name, metric.help, unit, kind)?;
            for sample in samples {
                let labels = Labels { domain: &self.domain, names: metric.labels, sample };
                let mut one = family.encode_family(&labels)?;
                let none = None::<&Exemplar<Vec<(String, String)>, f64>>;
                match (metric.is_counter, sample.value) {
                    (true, Value::Whole(value)) => one.encode_counter(&value, none)?,
                    (true, Value::Seconds(value)) => one.encode_counter(&value, none)?,
                    (false, Value::Whole(value)) => one.encode_gauge(&value)?,
                    (false, Value::Seconds(value)) => one.encode_gauge(&value)?,
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Page {
        let mut page = Page::new("d".to_owned());
        let name = "a \"b\" \\ \n{c=\"d\"} 1".to_owned();
        let thing = Arc::new(Thing { kind: "queue".to_owned(), name });
        page.add(Id::Took, &[], 0.5);
        page.add(Id::OwnerDeaths, &[], u64::MAX);
        page.add_of(Id::Memory, &thing, &[], 7_u64);
        page
    }

    #[test]
    fn both_forms_say_the_same() {
        let labels = r#"domain="d",kind="queue",name="a \"b\" \\ \n{c=\"d\"} 1""#;
        let text = page().encode(Format::Text);
        let open = page().encode(Format::OpenMetrics);
        for page in [&text, &open] {
            assert!(page.contains("outlive_scrape_duration_seconds{domain=\"d\"} 0.5\n"), "{page}");
            assert!(page.contains(&format!("outlive_memory_bytes{{{labels}}} 7\n")), "{page}");
            let deaths = "outlive_owner_deaths_total{domain=\"d\"} 18446744073709551615\n";
            assert!(page.contains(deaths), "{page}");
        }
        assert!(text.contains("# TYPE outlive_owner_deaths_total counter\n"), "{text}");
        assert!(open.contains("# TYPE outlive_owner_deaths counter\n"), "{open}");
        assert!(open.contains("# UNIT outlive_memory_bytes bytes\n"), "{open}");
        assert!(open.ends_with("# EOF\n") && !text.contains("EOF"), "{open}");
    }
}
