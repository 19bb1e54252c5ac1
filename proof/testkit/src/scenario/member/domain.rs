//! Orders about the domain as a whole.

use outlive::Domain;

/// Carries out an order; see the match for which there are.
pub fn obey(domain: &Domain, order: &[&str]) -> Result<String, String> {
    match order {
        ["open"] => Ok(String::new()),
        ["rescues"] => Ok(domain.stats().rescues.to_string()),
        // Cleans up after the dead. Answers whether there was nothing to do, and what there was.
        ["sweep"] => {
            let report = domain.sweep(false).map_err(|error| error.to_string())?;
            Ok(if report.is_clean() { "clean".to_owned() } else { format!("{report:?}") })
        }
        // The names of what is there.
        ["names"] => {
            let entries = domain.entries().map_err(|error| error.to_string())?;
            let broken = entries.iter().find_map(|entry| entry.kind.as_ref().err());
            match broken {
                Some(error) => Err(error.to_string()),
                None => Ok(entries
                    .iter()
                    .map(|entry| entry.name.as_str())
                    .collect::<Vec<_>>()
                    .join(" ")),
            }
        }
        // How many nodes there are, if all of them are whole.
        ["nodes"] => {
            let nodes = domain.nodes().map_err(|error| error.to_string())?;
            let is_whole = |node: &outlive::node::NodeInfo| {
                node.name == "victim" && node.attributes.get("key") == Some("value")
            };
            match nodes.iter().all(is_whole) {
                true => Ok(nodes.len().to_string()),
                false => Err(format!("a node in parts: {nodes:?}")),
            }
        }
        ["remove", name] => {
            domain.remove(name).map(|()| String::new()).map_err(|error| error.to_string())
        }
        _ => Err("unknown order".to_owned()),
    }
}
