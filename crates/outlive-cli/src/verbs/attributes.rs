//! Attributes of what a verb makes: `--attribute KEY=VALUE`.

use clap::Args;
use outlive::Domain;

/// What the verbs that make things share.
#[derive(Args, Debug)]
pub struct AttributeArgs {
    /// Give what is made this attribute, which 'outlive info' shows; may be given several times. Fails
    /// with exit code 7 if the thing is there and does not have it; 'lock run' and 'semaphore run' with 125
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    attribute: Vec<(String, String)>,
}

impl AttributeArgs {
    /// Returns a handle of the domain by which things are made that carry them.
    pub fn on(&self, domain: Domain) -> Domain {
        if self.attribute.is_empty() {
            return domain;
        }
        domain.with_attributes(self.attribute.iter().map(|(key, value)| (&**key, &**value)))
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("a key, '=' and a value, as in unit=m/s".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_a_key_and_any_value() {
        let reads = |text: &str, key: &str, value: &str| {
            assert_eq!(pair(text), Ok((key.to_owned(), value.to_owned())), "{text}");
        };
        reads("unit=m/s", "unit", "m/s");
        reads("note=a=b", "note", "a=b");
        reads("empty=", "empty", "");
        assert!(pair("unit").is_err() && pair("=value").is_err());
    }
}
