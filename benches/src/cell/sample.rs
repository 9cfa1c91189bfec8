//! What a cell answers.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Counts of latencies in ns, three significant digits, up to a minute; higher ones count as a minute.
pub(crate) type Latencies = Histogram<u64>;

const LATENCY_MAX_NS: u64 = 60_000_000_000;

/// One measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// Operations done.
    pub(crate) ops: u64,
    /// A hash of what was computed, in hexadecimal: equal for all contenders that did the same work.
    pub(crate) checksum: String,
    /// Values by name. The name ends with the unit (`_ns`, `_us`, `_bytes`, ...); everything is better when it is less.
    pub(crate) metrics: BTreeMap<String, f64>,
    /// Latencies: an HdrHistogram, V2, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) latencies: Option<String>,
}

impl Sample {
    /// A sample without any value yet.
    pub(crate) fn new(ops: u64, checksum: u64) -> Sample {
        Sample {
            ops,
            checksum: format!("{checksum:016x}"),
            metrics: BTreeMap::new(),
            latencies: None,
        }
    }

    /// What a cell has printed.
    ///
    /// # Errors
    /// What is wrong with it, its latencies included.
    pub(crate) fn read(text: &str) -> Result<Sample, String> {
        let text = text.trim();
        let sample: Sample =
            serde_json::from_str(text).map_err(|e| format!("answers {text:?}: {e}"))?;
        if let Some(latencies) = &sample.latencies {
            decode(latencies).map_err(|e| format!("answers latencies that are none: {e}"))?;
        }
        Ok(sample)
    }

    /// Sets one value, or replaces it.
    pub(crate) fn set(&mut self, metric: &str, value: f64) -> &mut Sample {
        self.metrics.insert(metric.to_owned(), value);
        self
    }

    /// Keeps the latencies, and sets `p50_us`, `p99_us`, `p999_us` and `max_us`.
    pub(crate) fn set_latencies(&mut self, latencies: &Latencies) -> &mut Sample {
        for (metric, quantile) in [("p50_us", 0.50), ("p99_us", 0.99), ("p999_us", 0.999)] {
            self.set(metric, latencies.value_at_quantile(quantile) as f64 / 1e3);
        }
        self.set("max_us", latencies.max() as f64 / 1e3);
        self.latencies = Some(encode(latencies));
        self
    }
}

/// An empty histogram.
pub(crate) fn latencies() -> Latencies {
    Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3).expect("the bounds are valid")
}

/// In the form of [`Sample::latencies`].
pub(crate) fn encode(latencies: &Latencies) -> String {
    let mut bytes = Vec::new();
    V2Serializer::new()
        .serialize(latencies, &mut bytes)
        .expect("a vector takes everything");
    STANDARD.encode(bytes)
}

/// The inverse of [`encode`].
///
/// # Errors
/// What is wrong with the text, or that the histogram has other bounds than [`latencies`].
pub(crate) fn decode(text: &str) -> Result<Latencies, String> {
    let bytes = STANDARD.decode(text).map_err(|e| e.to_string())?;
    let histogram: Latencies = Deserializer::new()
        .deserialize(&mut bytes.as_slice())
        .map_err(|e| format!("{e:?}"))?;
    let bounds = |of: &Latencies| (of.low(), of.high(), of.sigfig());
    let (is, should) = (bounds(&histogram), bounds(&latencies()));
    if is != should {
        return Err(format!("a histogram of bounds {is:?}, not {should:?}"));
    }
    Ok(histogram)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_come_back_as_they_went() {
        let mut there = latencies();
        for ns in [1, 999, 1_000_000, LATENCY_MAX_NS] {
            there.saturating_record(ns);
        }
        assert_eq!(decode(&encode(&there)).unwrap(), there);
        assert!(decode("AAAA").is_err());
        let narrow: Latencies = Histogram::new_with_bounds(1, 1000, 2).unwrap();
        assert!(decode(&encode(&narrow)).unwrap_err().contains("bounds"));
    }

    #[test]
    fn an_answer_whose_latencies_do_not_decode_is_refused() {
        let mut sample = Sample::new(1, 2);
        sample.set_latencies(&latencies());
        let text = |sample: &Sample| serde_json::to_string(sample).unwrap();
        assert_eq!(Sample::read(&text(&sample)).as_ref(), Ok(&sample));
        sample.latencies = Some("AAAA".to_owned());
        let error = Sample::read(&text(&sample)).unwrap_err();
        assert!(error.contains("latencies that are none"), "{error}");
        assert!(Sample::read("garbage").unwrap_err().contains("garbage"));
    }
}
