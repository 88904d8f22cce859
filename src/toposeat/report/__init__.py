"""Nouns to text, JSON, SVG and HTML. Never computes a prediction, never reads the machine."""

from __future__ import annotations

from toposeat.report.advice_json import advice_json, joint_json
from toposeat.report.bench_json import bench_json, clocked_json
from toposeat.report.health_json import health_json
from toposeat.report.html.page import html_page
from toposeat.report.html.section import Section
from toposeat.report.json_form import (
    comparison_json,
    json_text,
    mapping_json,
    placement_json,
    profile_json,
    run_json,
    topology_json,
)
from toposeat.report.matrix_form import matrix_file
from toposeat.report.network_json import network_json
from toposeat.report.scale_json import scale_comparison_json, scale_json
from toposeat.report.svg.machine import topology_svg
from toposeat.report.svg.plain import plain_svg
from toposeat.report.svg.profile import traffic_svg
from toposeat.report.svg.scale import scale_svg
from toposeat.report.text.advice import environment_lines, render_advice_text, render_joint_text
from toposeat.report.text.bench import render_bench_text
from toposeat.report.text.catalogue import render_catalogue_text
from toposeat.report.text.clocked import render_clocked_text
from toposeat.report.text.console import TextStyle, text_style_for
from toposeat.report.text.health import render_health_text
from toposeat.report.text.mapping import (
    render_comparison_text,
    render_mapping_text,
    render_placement_text,
)
from toposeat.report.text.network import render_network_text
from toposeat.report.text.run import render_run_text
from toposeat.report.text.scale import render_scale_comparison_text, render_scale_text
from toposeat.report.text.topology import render_topology_text
from toposeat.report.text.traffic import render_traffic_text
from toposeat.report.words import certificate_words, remarks, verdict_words

__all__ = [
    "Section",
    "TextStyle",
    "bench_json",
    "advice_json",
    "clocked_json",
    "certificate_words",
    "comparison_json",
    "health_json",
    "html_page",
    "environment_lines",
    "joint_json",
    "json_text",
    "mapping_json",
    "matrix_file",
    "network_json",
    "placement_json",
    "plain_svg",
    "profile_json",
    "remarks",
    "render_advice_text",
    "render_bench_text",
    "render_clocked_text",
    "render_catalogue_text",
    "render_comparison_text",
    "render_health_text",
    "render_mapping_text",
    "render_joint_text",
    "render_network_text",
    "render_placement_text",
    "render_run_text",
    "render_scale_comparison_text",
    "render_scale_text",
    "render_topology_text",
    "render_traffic_text",
    "run_json",
    "scale_comparison_json",
    "scale_json",
    "scale_svg",
    "text_style_for",
    "topology_json",
    "topology_svg",
    "traffic_svg",
    "verdict_words",
]
