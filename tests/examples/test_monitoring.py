"""The alert rules and the dashboard ask for metrics that there are, by labels that they have."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from rstreams.web.metric_tables import TABLES

FOLDER = Path(__file__).parents[2] / "examples" / "monitoring"
RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"] for rule in group["rules"]
]
PANELS: list[dict[str, Any]] = json.loads((FOLDER / "dashboard.json").read_text())["panels"]
LABELS = {metric.name: {*table.labels, metric.label, "instance"} for table in TABLES for metric in table.metrics}
LABELS["rstreams_build_info"] = {"version", "python", "instance"}


def metrics_of(expression: str) -> set[str]:
    """Return the names of the metrics; a histogram has three series."""
    names = re.findall(r"\brstreams_\w+", expression)
    return {name if name in LABELS else re.sub("_(bucket|sum|count)$", "", name) for name in names}


def check(expression: str, text: str) -> None:
    """Check that the metrics are there, and that the labels of the text are those of each of them."""
    found = metrics_of(expression)
    assert found <= set(LABELS), found - set(LABELS)
    for name in re.findall(r"\{\{ *(?:\$labels\.)?(\w+) *\}\}", text):
        assert all(name in LABELS[metric] for metric in found), (expression, name)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_a_rule_asks_for_what_there_is(rule: dict[str, Any]) -> None:
    check(rule["expr"], rule["annotations"]["summary"])
    assert rule["labels"]["severity"] in {"page", "warn"}
    assert metrics_of(rule["expr"]) or rule["alert"] == "NodeDown"


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_a_panel_asks_for_what_there_is(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        assert metrics_of(target["expr"])
        check(target["expr"], target["legendFormat"])


def test_each_counter_that_can_mean_a_loss_has_an_alert() -> None:
    alarming = {"dropped", "lost", "refused", "rejected", "exhausted", "expired"}
    losses = {metric.name for table in TABLES for metric in table.metrics if metric.field in alarming}
    asked: set[str] = set()
    for rule in RULES:
        asked |= metrics_of(rule["expr"])
    assert losses <= asked
