"""One of several processes that train together; started by ``benchmarks.gpu.parts.processes``."""

import json
import sys

from benchmarks.gpu.parts import train_shared
from benchmarks.gpu.sizes import Job

if __name__ == "__main__":
    train_shared(Job(**json.loads(sys.argv[1])))
