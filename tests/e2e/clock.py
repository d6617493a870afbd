"""Processes that believe it is another time: the clock of the day moved by so many seconds, for a whole process tree.

The time of day only: what measures durations (the monotonic clock) goes on as it is."""

import shutil
import subprocess
from pathlib import Path

import pytest

_SOURCE = r"""
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static time_t moved(void) {
  static int known = 0;
  static time_t by = 0;
  if (!known) {
    const char *text = getenv("CLOCK_MOVED_BY_S");
    by = text ? (time_t)atoll(text) : 0;
    known = 1;
  }
  return by;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  int code = syscall(SYS_clock_gettime, clock, now);
  if (code == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += moved();
  return code;
}

int gettimeofday(struct timeval *now, void *zone) {
  struct timespec exact;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &exact);
  now->tv_sec = exact.tv_sec;
  now->tv_usec = exact.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *out) {
  struct timespec exact;
  clock_gettime(CLOCK_REALTIME, &exact);
  if (out) *out = exact.tv_sec;
  return exact.tv_sec;
}
"""


def moved_clock(folder: Path) -> Path:
    """The library to preload. Skips where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler: the clock cannot be moved")
    source, library = folder / "clock.c", folder / "clock.so"
    source.write_text(_SOURCE)
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    return library


def at(library: Path, *, by_s: int) -> dict[str, str]:
    """The environment of a process whose clock is moved by so many seconds."""
    return {"LD_PRELOAD": str(library), "CLOCK_MOVED_BY_S": str(by_s)}
