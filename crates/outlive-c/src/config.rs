//! The configuration file: its profiles for topics.

use std::ffi::{c_char, c_int};
use std::time::Duration;

use outlive::config::{Config, Profile};

use crate::argument::{borrow, give, handle_out, text, text_or_none, with_options};
use crate::code::{Failure, entry, entry_or};
use crate::domain::close;
use crate::topic_options::{
    durability_number, outlive_publisher_options_t, outlive_subscriber_options_t,
    outlive_topic_options_t,
};
use crate::wait::{OUTLIVE_WAIT_ADAPTIVE, wait_number};

/// What the configuration files say: the page "Configure a machine" of the book has all keys. All
/// threads may use it at once.
pub struct outlive_config_t(Config);

/// Reads that file alone; `path` NULL: the files of `$OUTLIVE_CONFIG`, of the user and of the system,
/// as far as they exist. (`outlive_domain_open` reads them by itself, for the default domain.)
///
/// Owner: `*config` is the caller's, until `outlive_config_close`.
///
/// Errors: EINVAL: a file is no TOML, has an unknown key or an impossible value; `outlive_last_error`
/// says where. ENOENT: `path` is not there; EACCES, and errors of the system.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_config_load(
    path: *const c_char,
    config: *mut *mut outlive_config_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a place for `config` and NULL or a NUL-terminated path.
        let (out, path) = unsafe { (handle_out(config)?, text_or_none(path)?) };
        let config = match path {
            Some(path) => Config::load_file(path)?,
            None => Config::load()?,
        };
        out.put(Box::into_raw(Box::new(outlive_config_t(config))));
        Ok(())
    })
}

/// Closes a configuration. Passing NULL has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_config_close(config: *mut outlive_config_t) {
    // SAFETY: the C caller passes NULL or a live handle, which it gives up.
    unsafe { close(config) }
}

/// Writes the name of the profile that holds for the topic of that name into `buffer`: of the first
/// that has a pattern which fits.
///
/// Errors: ENOENT: no profile holds for it; EMSGSIZE: the name does not fit with its NUL; EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_config_profile(
    config: *const outlive_config_t,
    topic: *const c_char,
    buffer: *mut c_char,
    capacity: usize,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live configuration and a NUL-terminated name.
        let profile = unsafe { profile(config, topic) }?;
        let profile = profile.ok_or_else(|| {
            Failure::new(libc::ENOENT, "no profile of the configuration holds for that topic")
        })?;
        // SAFETY: the C caller passes `capacity` writable bytes at `buffer`.
        unsafe { give(&profile.name, buffer, capacity) }
    })
}

/// Returns how handles wait that no profile says anything else of, `wait.strategy`: one of the
/// OUTLIVE_WAIT numbers; OUTLIVE_WAIT_ADAPTIVE where no file says it, and for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_config_wait(config: *const outlive_config_t) -> u32 {
    entry_or(OUTLIVE_WAIT_ADAPTIVE, || {
        // SAFETY: the C caller passes NULL or a live configuration.
        let config = &unsafe { borrow(config, "a configuration") }?.0;
        Ok(config.wait_strategy().map_or(OUTLIVE_WAIT_ADAPTIVE, wait_number))
    })
}

/// Sets in `options` what the profile of the topic of that name says of topics, and leaves the rest
/// as it is; all of it, if no profile holds for that name. Begin `options` with
/// OUTLIVE_TOPIC_OPTIONS_INIT; what is set after this call wins.
///
/// Errors: EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_config_topic(
    config: *const outlive_config_t,
    topic: *const c_char,
    options: *mut outlive_topic_options_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live configuration, a NUL-terminated name, and options of the
        // size that they say.
        unsafe {
            with_profile(config, topic, options, |options, profile| {
                set(&mut options.depth, profile.depth);
                set(&mut options.max_bytes, profile.max_bytes);
                set(&mut options.max_publishers, profile.max_publishers);
                set(&mut options.max_subscribers, profile.max_subscribers);
                set(&mut options.max_samples, profile.max_samples);
                set(&mut options.stamps, profile.stamps.map(u32::from));
                set(&mut options.no_stamps, profile.stamps.map(|stamps| u32::from(!stamps)));
                set(&mut options.durability, profile.durability.map(durability_number));
                // A profile is for both sides: where it wants subscribers to be reliable, the topic
                // offers it.
                set(
                    &mut options.reliable,
                    profile.reliable.filter(|wanted| *wanted).map(u32::from),
                );
                set(&mut options.mode, profile.mode);
                set(&mut options.wait, profile.wait_strategy.map(wait_number));
            })
        }
    })
}

/// Sets in `options` what the profile of the topic of that name says of publishers, as
/// `outlive_config_topic` does. Begin `options` with OUTLIVE_PUBLISHER_OPTIONS_INIT.
///
/// Errors: EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_config_publisher(
    config: *const outlive_config_t,
    topic: *const c_char,
    options: *mut outlive_publisher_options_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live configuration, a NUL-terminated name, and options of the
        // size that they say.
        unsafe {
            with_profile(config, topic, options, |options, profile| {
                set(&mut options.max_blocking, profile.max_blocking.map(nanoseconds));
                set(&mut options.lifespan, profile.lifespan.map(nanoseconds));
                set(&mut options.period, profile.publisher_period.map(nanoseconds));
            })
        }
    })
}

/// Sets in `options` what the profile of the topic of that name says of subscribers, as
/// `outlive_config_topic` does. Begin `options` with OUTLIVE_SUBSCRIBER_OPTIONS_INIT. `keys` then
/// points into the configuration: make the subscriber before the configuration is closed.
///
/// Errors: EINVAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn outlive_config_subscriber(
    config: *const outlive_config_t,
    topic: *const c_char,
    options: *mut outlive_subscriber_options_t,
) -> c_int {
    entry(|| {
        // SAFETY: the C caller passes a live configuration, a NUL-terminated name, and options of the
        // size that they say.
        unsafe {
            with_profile(config, topic, options, |options, profile| {
                set(&mut options.reliable, profile.reliable.map(u32::from));
                set(&mut options.history, profile.history);
                set(&mut options.keep_last, profile.keep_last);
                set(&mut options.period, profile.period.map(nanoseconds));
                set(&mut options.sessions, profile.sessions.map(u32::from));
                set(&mut options.max_age, profile.max_age.map(nanoseconds));
                set(&mut options.keys, profile.keys.as_ref().map(|keys| keys.as_ptr()));
                set(&mut options.key_count, profile.keys.as_ref().map(Vec::len));
                set(&mut options.liveliness, profile.liveliness.map(nanoseconds));
            })
        }
    })
}

/// Returns the profile of a topic.
///
/// # Safety
/// The C caller passes a live configuration, which outlives the result, and a NUL-terminated name.
unsafe fn profile<'a>(
    config: *const outlive_config_t,
    topic: *const c_char,
) -> Result<Option<&'a Profile>, Failure> {
    // SAFETY: the caller guarantees a live configuration and a NUL-terminated name.
    let (config, topic) = unsafe { (borrow(config, "a configuration")?, text(topic, "a name")?) };
    Ok(config.0.profile_for(topic))
}

/// Lets `fill` change a caller's options by the profile of a topic; without one they stay as they are.
///
/// # Safety
/// The C caller passes a live configuration, a NUL-terminated name, and options of the size that they
/// say.
unsafe fn with_profile<T: Copy>(
    config: *const outlive_config_t,
    topic: *const c_char,
    options: *mut T,
    fill: impl FnOnce(&mut T, &Profile),
) -> Result<(), Failure> {
    // SAFETY: the caller guarantees a live configuration and a NUL-terminated name.
    let profile = unsafe { profile(config, topic) }?;
    // SAFETY: the caller guarantees options of the size that they say.
    unsafe {
        with_options(options, |options| {
            if let Some(profile) = profile {
                fill(options, profile);
            }
        })
    }
}

/// Sets an option, if the profile says it.
fn set<T>(option: &mut T, said: Option<T>) {
    if let Some(said) = said {
        *option = said;
    }
}

/// Returns a span as options have it, where 0 means that none is set, as for ever does: no time at all
/// is 1.
fn nanoseconds(span: Duration) -> u64 {
    if span == Duration::MAX {
        return 0;
    }
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX).max(1)
}
