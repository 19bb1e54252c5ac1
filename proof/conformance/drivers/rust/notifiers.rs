//! `notifier.` and `listener.`

use std::collections::HashMap;

use outlive::Domain;
use outlive::notify::{Listener, Notifier, NotifierEnd, NotifierOptions};

use crate::answer::{self, Answer, Refusal, done, find, said};

#[derive(Default)]
pub(crate) struct Notifiers {
    notifiers: HashMap<String, Notifier>,
    pub(crate) listeners: HashMap<String, Listener>,
}

/// `created=1`, `left=2`, `died=3`.
fn options<E: NotifierEnd>(
    mut plan: NotifierOptions<E>,
    options: &[&str],
) -> Result<NotifierOptions<E>, Refusal> {
    if let Some(id) = answer::option(options, "created")? {
        plan = plan.on_created(id);
    }
    if let Some(id) = answer::option(options, "left")? {
        plan = plan.on_left(id);
    }
    if let Some(id) = answer::option(options, "died")? {
        plan = plan.on_died(id);
    }
    Ok(plan)
}

impl Notifiers {
    pub(crate) fn act(&mut self, domain: &Domain, command: &str, args: &[&str]) -> Answer {
        match (command, args) {
            ("notifier.open", [name, more @ ..]) => {
                let notifier = options(Notifier::options(), more)?.open_or_create(domain, name)?;
                self.notifiers.insert((*name).to_owned(), notifier);
                done()
            }
            ("notifier.notify", [name, id]) => {
                said(find(&mut self.notifiers, name)?.notify(answer::number(id)?)?)
            }
            ("notifier.close", [name]) => {
                self.notifiers.remove(*name);
                done()
            }
            ("listener.open", [name, more @ ..]) => {
                let listener = options(Listener::options(), more)?.open_or_create(domain, name)?;
                self.listeners.insert((*name).to_owned(), listener);
                done()
            }
            ("listener.wait", [name, patience]) => {
                let listener = find(&mut self.listeners, name)?;
                let told = match answer::patience(patience)? {
                    None => listener.try_wait()?,
                    Some(span) => listener.wait_timeout(span)?,
                };
                let told = told.ok_or_else(|| Refusal::new("None", ""))?;
                let told: Vec<String> = told.iter().map(|(id, n)| format!("{id}:{n}")).collect();
                said(told.join(" "))
            }
            ("listener.close", [name]) => {
                self.listeners.remove(*name);
                done()
            }
            _ => answer::unknown(command, args),
        }
    }
}
