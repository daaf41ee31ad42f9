"""Explore: small questions that a reader puts to the vectors and models the server was started with."""

from evenhand.web.explore.tool import TOOLS, ExploreTool

__all__ = ["TOOLS", "ExploreTool"]
