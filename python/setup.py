"""Builds the wheel for the platform of the program inside it. pyproject.toml has everything else."""

import os

from setuptools import setup
from setuptools.dist import Distribution
from wheel.bdist_wheel import bdist_wheel


class BinaryDistribution(Distribution):
    """The program depends on the platform, so the files are not pure Python."""

    def has_ext_modules(self):
        return True


class PlatformWheel(bdist_wheel):
    """The program depends on the platform and not on the version of Python."""

    def get_tag(self):
        _, _, platform = super().get_tag()
        return "py3", "none", os.environ.get("WHEEL_PLATFORM", platform)


setup(distclass=BinaryDistribution, cmdclass={"bdist_wheel": PlatformWheel})
