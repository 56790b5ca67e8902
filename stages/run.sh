# sh stages/run.sh STAGE [INSTANCE]: `python -m stages.STAGE INSTANCE` in the environment of the DVC that started it.
#
# DVC runs a stage's command by a shell, where `python` is what stands first on PATH: not DVC's own Python, unless its
# environment has been activated. The command is written into dvc.lock, so that it cannot name the place itself.

program_of() {  # process id: the program as it was called, by a path that holds from here
    called=$({ tr '\0' '\n' < "/proc/$1/cmdline" | head -n 1; } 2>/dev/null)
    # Without /proc, as on macOS. This gives the program alone, and no path if it was found on PATH.
    [ -n "$called" ] || called=$(ps -o comm= -p "$1" 2>/dev/null)
    case $called in
        /*) echo "$called" ;;
        */*) echo "$(readlink "/proc/$1/cwd")/$called" ;;
        *) echo "$called" ;;
    esac
}

has_packages() {
    "$1" -c 'from importlib.util import find_spec as f; raise SystemExit(not (f("pandas") and f("torch")))' 2>/dev/null
}

stage=$1
shift
unset PYTHONDONTWRITEBYTECODE  # each stage would compile its imports anew, for seconds
# DVC is the parent, or the parent of a shell that waits. One that stands outside any environment has no pandas.
grandparent=$(sed 's/.*) . \([0-9]*\) .*/\1/' "/proc/$PPID/stat" 2>/dev/null)
[ -n "$grandparent" ] || grandparent=$(ps -o ppid= -p "$PPID" 2>/dev/null | tr -d ' ')
dvc=
for pid in "$PPID" "$grandparent"; do
    program=$(program_of "$pid")
    case ${program##*/} in
        python*|dvc*) [ -n "$dvc" ] || { dvc=$program; export KEYCONTRAST_ORCHESTRATOR="$pid"; } ;;
    esac
done
for python in "$dvc" python .venv/bin/python python3; do
    case ${python##*/} in
        python*) has_packages "$python" && exec "$python" -m stages.run.processes "stages.$stage" "$@" ;;
    esac
done
echo "$stage: no Python here has the packages that stages need. Make the environment by \`make env\`, or activate it." >&2
exit 1
