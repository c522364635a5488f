"""Sketch rules: schedules for programs that nobody wrote a template for. See `engine` for how they work."""

from autosched.space.rules.engine import Place, Plan, Rule, rule
from autosched.space.rules.generate import cpu_rules, generated, gpu_rules, rule_names, space_of

__all__ = ["Place", "Plan", "Rule", "cpu_rules", "generated", "gpu_rules", "rule", "rule_names", "space_of"]
