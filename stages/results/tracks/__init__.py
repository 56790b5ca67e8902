"""The tables and figures of each track; a track is registered here once."""

from stages.results.track import TrackResults
from stages.results.tracks.clld import CLLD
from stages.results.tracks.hcl import HCL
from stages.results.tracks.pgkpr import PGKPR

TRACKS: dict[str, TrackResults] = {track.name: track for track in (HCL, PGKPR, CLLD)}
