"""Nouns to text, JSON, SVG and HTML. Never computes a prediction, never reads the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toposeat.door import door

if TYPE_CHECKING:
    from toposeat.report.html.notebook import notebook_html
    from toposeat.report.html.page import Section, html_page
    from toposeat.report.json_form import (
        advice_json,
        bench_json,
        clocked_json,
        comparison_json,
        device_set_json,
        health_json,
        json_text,
        knowledge_json,
        mapping_json,
        network_json,
        placement_json,
        profile_json,
        run_json,
        scale_comparison_json,
        scale_json,
        topology_json,
        with_stack,
    )
    from toposeat.report.machine_words import remarks
    from toposeat.report.matrix_form import matrix_file
    from toposeat.report.svg.machine import mapping_svg, topology_svg
    from toposeat.report.svg.profile import traffic_svg
    from toposeat.report.svg.scale import scale_svg
    from toposeat.report.text.advice import environment_lines, render_advice_text
    from toposeat.report.text.bench import render_bench_text
    from toposeat.report.text.catalogue import render_catalogue_text
    from toposeat.report.text.clocked import render_clocked_text
    from toposeat.report.text.comparison import (
        render_comparison_text,
        render_scale_comparison_text,
    )
    from toposeat.report.text.console import TextStyle, text_style_for
    from toposeat.report.text.demo import render_demo_text
    from toposeat.report.text.device_set import render_device_set_text
    from toposeat.report.text.glance import glance_line
    from toposeat.report.text.health import render_health_text
    from toposeat.report.text.mapping import render_mapping_text, render_placement_text
    from toposeat.report.text.network import render_network_text
    from toposeat.report.text.run import render_run_text, render_verdict
    from toposeat.report.text.scale import render_scale_text
    from toposeat.report.text.topology import render_topology_text
    from toposeat.report.text.traffic import render_traffic_text
    from toposeat.report.words import certificate_words, verdict_words
else:
    __getattr__ = door(__name__, __file__)
