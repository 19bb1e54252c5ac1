"""ROS 2's quality of service as Outlive's options, policy by policy; doc/how-to/ros.md has the table.

An Outlive topic's options lie in its file, and publishers and subscribers choose within them. So a
profile of ROS 2, which each end has, becomes three sets of options.
"""

from __future__ import annotations

from typing import Any

from .. import _outlive


def _name(policy: Any) -> str:
    return str(policy.name)


def _seconds(duration: Any) -> float | None:
    """Returns a duration in seconds; ``None`` is for ever, which is also what zero stands for."""
    nanoseconds = duration.nanoseconds
    # rmw's "infinite" is the largest number of seconds that it can say.
    return None if nanoseconds <= 0 or nanoseconds >= 9_223_372_036_000_000_000 else nanoseconds / 1e9


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in options.items() if value is not None}


def for_topic(qos: Any) -> dict[str, Any]:
    """Returns the options of the topic for a profile: depth, reliability and durability."""
    durability = {"VOLATILE": "volatile", "TRANSIENT_LOCAL": "transient_local"}.get(_name(qos.durability))
    reliable = {"RELIABLE": True, "BEST_EFFORT": False}.get(_name(qos.reliability))
    # KEEP_ALL is reliable delivery: the publisher waits before it overwrites.
    depth = qos.depth if _name(qos.history) == "KEEP_LAST" and qos.depth else None
    return _given({"depth": depth, "reliable": reliable, "durability": durability})


def for_publisher(qos: Any) -> dict[str, Any]:
    """Returns the options of a publisher for a profile: deadline and lifespan."""
    return _given({"period": _seconds(qos.deadline), "lifespan": _seconds(qos.lifespan)})


def for_subscriber(qos: Any) -> dict[str, Any]:
    """Returns the options of a subscriber for a profile."""
    depth = qos.depth if _name(qos.history) == "KEEP_LAST" and qos.depth else None
    latched = _name(qos.durability) == "TRANSIENT_LOCAL"
    manual = _name(qos.liveliness) == "MANUAL_BY_TOPIC"
    options = _given(
        {
            "reliable": True if _name(qos.reliability) == "RELIABLE" else None,
            "history": depth if latched else None,
            "period": _seconds(qos.deadline),
            "max_age": _seconds(qos.lifespan),
            # AUTOMATIC needs no lease: a death is told at once.
            "liveliness": _seconds(qos.liveliness_lease_duration) if manual else None,
        }
    )
    if depth is not None and "reliable" not in options:
        # A reliable subscriber misses none of the topic's depth.
        options["keep_last"] = depth
    return options


def profile_of(topic: _outlive.Topic, **changes: Any) -> Any:
    """Returns the profile that a topic's options come to; ``changes`` are ``QoSProfile``'s own."""
    from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy

    config = topic.config
    volatile = config["durability"] == "volatile"
    return QoSProfile(
        **{
            "history": HistoryPolicy.KEEP_LAST,
            "depth": config["depth"],
            "reliability": ReliabilityPolicy.RELIABLE if config["reliable"] else ReliabilityPolicy.BEST_EFFORT,
            "durability": DurabilityPolicy.VOLATILE if volatile else DurabilityPolicy.TRANSIENT_LOCAL,
            **changes,
        }
    )
