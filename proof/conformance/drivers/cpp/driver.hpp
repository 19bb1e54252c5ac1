/* What the files of C++'s driver share: the words of a line, answers, errors. */
#pragma once
#include <outlive.hpp>

#include <algorithm>
#include <atomic>
#include <functional>
#include <iostream>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <sstream>
#include <unistd.h>

#include "../messages.h"

using namespace std::chrono_literals;
using std::string;
using Words = std::vector<string>;
template <class T> using Named = std::map<string, T>;

/* Answers until the input ends, or until that line: for what the next lines come in the middle of. */
void serve(const string &last);

/* What the header has no class for, or this machine does not let us do. */
struct Unsupported {
    string what = "";
};
/* A line that the driver cannot read, or bytes that differ from those that were sent. */
struct Wrong {
    string name, message;
};

inline string show(std::span<const std::byte> bytes) {
    char shown[64];
    ::show(shown, bytes.data(), bytes.size());
    return shown;
}

inline uint64_t number(const string &word) { return std::stoull(word); }

/* Milliseconds, or `try`. */
inline outlive::Deadline until(const string &word) {
    if (word == "try") return outlive::at_once;
    return std::chrono::milliseconds(number(word));
}

inline std::vector<std::byte> pattern(size_t size, uint64_t seed) {
    std::vector<std::byte> bytes(size);
    ::pattern(reinterpret_cast<unsigned char *>(bytes.data()), size, seed);
    return bytes;
}

inline std::vector<std::byte> message(const string &word) {
    if (auto star = word.find('*'); star != string::npos) return pattern(number(word), number(word.substr(star + 1)));
    auto bytes = std::as_bytes(std::span(word));
    return {bytes.begin(), bytes.end()};
}

/* `KEY=NUMBER` among the options. */
inline uint64_t option(const Words &options, const string &key, uint64_t otherwise) {
    for (const string &option : options)
        if (option.starts_with(key + "=")) return number(option.substr(key.size() + 1));
    return otherwise;
}

inline bool flag(const Words &options, const string &word) { return std::ranges::find(options, word) != options.end(); }

template <class T> T &find(Named<T> &things, const string &name) {
    auto found = things.find(name);
    if (found == things.end()) throw Wrong{"Usage", "nothing is called " + name};
    return found->second;
}

inline string ok() { return "ok"; }
template <class T> string ok(const T &value) {
    std::ostringstream out;
    out << "ok " << value;
    return out.str();
}

/* An error by the name that the standard has for it. */
inline string name_of(const std::error_code &code) {
    static const std::map<std::errc, const char *> names = {
        {std::errc::owner_dead, "owner_dead"},
        {std::errc::file_exists, "file_exists"},
        {std::errc::state_not_recoverable, "state_not_recoverable"},
        {std::errc::resource_deadlock_would_occur, "resource_deadlock_would_occur"},
        {std::errc::device_or_resource_busy, "device_or_resource_busy"},
        {std::errc::timed_out, "timed_out"},
        {std::errc::resource_unavailable_try_again, "resource_unavailable_try_again"},
        {std::errc::broken_pipe, "broken_pipe"},
        {std::errc::connection_reset, "connection_reset"},
        {std::errc::connection_aborted, "connection_aborted"},
        {std::errc::not_connected, "not_connected"},
        {std::errc::operation_canceled, "operation_canceled"},
        {std::errc::message_size, "message_size"},
        {std::errc::no_space_on_device, "no_space_on_device"},
        {std::errc::operation_not_permitted, "operation_not_permitted"},
        {std::errc::permission_denied, "permission_denied"},
        {std::errc::no_such_file_or_directory, "no_such_file_or_directory"},
        {std::errc::directory_not_empty, "directory_not_empty"},
        {std::errc::invalid_argument, "invalid_argument"},
        {std::errc::value_too_large, "value_too_large"},
    };
    for (auto [errc, name] : names)
        if (code == errc) return name;
    switch (code.value()) {
    /* C++23 has taken its name away. */
    case ETIME: return "stream_timeout";
    /* The standard has none for it. */
    case ESTALE: return "ESTALE";
    case EUSERS: return "EUSERS";
    case ESHUTDOWN: return "ESHUTDOWN";
    case OUTLIVE_DAMAGED: return "OUTLIVE_DAMAGED";
    case OUTLIVE_OTHER_KIND: return "OUTLIVE_OTHER_KIND";
    case OUTLIVE_OTHER_TYPE: return "OUTLIVE_OTHER_TYPE";
    case OUTLIVE_BROKEN: return "OUTLIVE_BROKEN";
    case OUTLIVE_FAILED: return "OUTLIVE_FAILED";
    case OUTLIVE_LAGGED: return "OUTLIVE_LAGGED";
    case OUTLIVE_NEW_SESSION: return "OUTLIVE_NEW_SESSION";
    case OUTLIVE_NOT_LIVELY: return "OUTLIVE_NOT_LIVELY";
    case OUTLIVE_LIVELY: return "OUTLIVE_LIVELY";
    default: return std::to_string(code.value());
    }
}

/* A lock in hand, its value, and what became of its last owner. */
template <class Held> string got(Held &lock) {
    return (lock.owner_died() ? "owner-died " : "ok ") + std::to_string(lock.value());
}
