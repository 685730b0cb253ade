"""The submission is this folder, with the published parameters."""

from hotline_course.fixtures import *  # noqa: F403
