"""Nouns to text, JSON, SVG and HTML. Never computes a prediction, never reads the machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toposeat.door import door

if TYPE_CHECKING:
    from toposeat.report.html.notebook import notebook_html
    from toposeat.report.html.page import Section, html_page
    from toposeat.report.json_form import (
        advice_json,
        comparison_json,
        device_set_json,
        document,
        form_of,
        health_json,
        json_text,
        mapping_json,
        matrix_file,
        profile_json,
    )
    from toposeat.report.svg.charts import traffic_svg
    from toposeat.report.svg.machine import topology_svg
    from toposeat.report.svg.mapping import mapping_svg
    from toposeat.report.svg.network import network_file
    from toposeat.report.text import TextStyle, text_style_for
    from toposeat.report.view.asked import render_asked_text
    from toposeat.report.view.borrowed import (
        render_borrowed_text,
        render_lent_text,
        render_moved_text,
    )
    from toposeat.report.view.comparison import render_comparison_text
    from toposeat.report.view.device_set import render_device_set_text
    from toposeat.report.view.health import render_health_text
    from toposeat.report.view.machine import remarks, render_catalogue_text
    from toposeat.report.view.mapping import (
        proof_words,
        range_words,
        render_mapping_text,
        verdict_words,
    )
    from toposeat.report.view.measurement import render_measurement_text
    from toposeat.report.view.network import render_network_text
    from toposeat.report.view.placement import render_placement_text
    from toposeat.report.view.runs import (
        environment_lines,
        render_advice_text,
        render_clocked_text,
        render_demo_text,
        render_pattern_text,
        render_run_text,
        render_verdict,
    )
    from toposeat.report.view.topology import render_topology_text
    from toposeat.report.view.traffic import (
        has_crashed,
        render_patterns_text,
        render_traffic_text,
    )
else:
    __getattr__ = door(__name__, __file__)
