//! `outlive node`: the processes that have a name in the domain.

use std::collections::BTreeMap;

use clap::Args;
use outlive::node::NodeInfo;
use serde::Serialize;

use crate::cli::Common;
use crate::exit::{Code, Failure};
use crate::output::{self, counted, talk};
use crate::process;

/// List the processes that have a name in the domain
///
/// A process names itself by the library: Domain::node in Rust, outlive_node_open in C, Domain.node
/// in Python. A process that has died is not listed.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive node list\n  \
    outlive node list --json | jq -r '.nodes[].name'")]
pub struct ListArgs {}

/// Show all that is known about the processes of one name
#[derive(Args, Debug)]
#[command(after_long_help = "Example:\n  outlive node info planner")]
pub struct InfoArgs {
    /// The name that the processes gave themselves
    name: String,
}

#[derive(Serialize)]
struct Listing {
    domain: String,
    nodes: Vec<Described>,
}

/// A node in words that JSON knows.
#[derive(Serialize)]
pub struct Described {
    name: String,
    version: String,
    pid: u32,
    program: String,
    token: u32,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    attributes: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    damaged: bool,
}

impl Described {
    /// Returns a node in words that JSON knows.
    pub fn new(node: &NodeInfo) -> Described {
        let pair = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        Described {
            name: node.name.clone(),
            version: node.version.clone(),
            pid: node.pid,
            program: node.program.clone(),
            token: node.token.as_u32(),
            attributes: node.attributes.iter().map(pair).collect(),
            damaged: node.is_damaged,
        }
    }
}

/// Returns a node's name for a person; a process chose it, and a terminal must not be made to obey
/// it.
pub fn name(node: &NodeInfo) -> String {
    if node.is_damaged { "(damaged)".to_owned() } else { node.name.escape_debug().to_string() }
}

/// Runs `node list`.
pub fn list(common: &Common) -> Result<(), Failure> {
    let path = common.domain.path().display().to_string();
    let domain = common.domain.look()?;
    let nodes = match &domain {
        Some(domain) => domain.nodes()?,
        None => Vec::new(),
    };
    if common.json {
        let nodes = nodes.iter().map(Described::new).collect();
        return output::print_json(&Listing { domain: path, nodes });
    }
    if nodes.is_empty() {
        talk(format_args!("no process has a name in {path}"));
        return Ok(());
    }
    let rows: Vec<Vec<String>> = nodes
        .iter()
        .map(|node| {
            vec![
                name(node),
                node.version.escape_debug().to_string(),
                node.pid.to_string(),
                node.program.escape_debug().to_string(),
            ]
        })
        .collect();
    output::print(output::table(&["NAME", "VERSION", "PID", "PROGRAM"], &[2], &rows))
}

/// Runs `node info`.
pub fn info(args: &InfoArgs, common: &Common) -> Result<(), Failure> {
    let domain = common.domain.existing()?;
    let nodes = domain.nodes()?;
    let of_name: Vec<&NodeInfo> = nodes.iter().filter(|node| node.name == args.name).collect();
    if of_name.is_empty() {
        let others = counted(nodes.len() as u64, "node");
        let name = args.name.escape_debug();
        let text = format!("no living process has the name '{name}' here ({others} in all)");
        return Err(Failure::new(Code::NotFound, text));
    }
    if common.json {
        return of_name.iter().try_for_each(|node| output::print_json(&Described::new(node)));
    }
    let mut text = String::new();
    for node in of_name {
        let mut lines = vec![
            ("name", name(node)),
            ("version", node.version.escape_debug().to_string()),
            ("process", format!("{} ({})", node.pid, node.program.escape_debug())),
        ];
        // A pid of another namespace may mean another program here.
        if node.same_namespace
            && let Some(command) = process::command_line(node.pid)
        {
            lines.push(("command", command));
        }
        lines.extend(node.attributes.iter().map(|pair| ("attribute", attribute(pair))));
        for (what, value) in lines {
            text.push_str(&format!("{what:<11}  {value}\n"));
        }
    }
    output::print(text)
}

/// Returns an attribute for a person.
pub fn attribute((key, value): (&str, &str)) -> String {
    format!("{} = {}", key.escape_debug(), value.escape_debug())
}
