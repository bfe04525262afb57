# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# Completion of `reprise` for bash:  . scripts/completion.bash
#
# Commands and options are those that the tool's own help names, so that this need not
# be changed when they are.

_reprise() {
    local tool=$1 word=$2 before=$3 command=${COMP_WORDS[1]}
    local words
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ] || { [ "$command" = help ] && [ "$COMP_CWORD" -eq 2 ]; }; then
        words=$("$tool" help 2> /dev/null | sed -n '/^commands:/,/^$/s/^  \([a-z][a-z-]*\) .*/\1/p')
        [ "$COMP_CWORD" -gt 1 ] || words="$words --help --version"
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
        return
    fi
    case $before in
    --threads) words="single parallel" ;;
    --order) words="fdr karma rerun" ;;
    --arch) words="aarch64 x86_64" ;;
    --image) words=$(ls "$(dirname "$(command -v "$tool")")/../images" 2> /dev/null) ;;
    --at) [ "$command" != debug ] || words="start end" ;;
    --domain) words=$(virsh -q list --name 2> /dev/null) ;;
    -o | --output | --trace) mapfile -t COMPREPLY < <(compgen -d -- "$word"); return ;;
    --qmp | --kernel | --initrd | --console | --socket | --vmlinux)
        mapfile -t COMPREPLY < <(compgen -f -- "$word"); return
        ;;
    *)
        case $word in
        -*) words=$("$tool" help "$command" 2> /dev/null | grep -oE -- '(^|[[:space:](|[])--[a-z][a-z-]*' |
                    grep -oE -- '--[a-z-]+' | sort -u) ;;
        *) mapfile -t COMPREPLY < <(compgen -f -- "$word"); return ;;
        esac
        ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -o filenames -F _reprise reprise
