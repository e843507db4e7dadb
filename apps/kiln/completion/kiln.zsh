#compdef kiln
# zsh completion for kiln: eval "$(kiln completion zsh)", or save it as _kiln in a folder of $fpath
_kiln() {
    local line
    local -a candidates
    for line in "${(@f)$("${words[1]}" complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        case $line in
        :files) _files ;;
        :folders) _files -/ ;;
        ?*) candidates+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}") ;;
        esac
    done
    (( ${#candidates} )) && _describe kiln candidates
}
if [ "${funcstack[1]}" = "_kiln" ]; then _kiln; else compdef _kiln kiln; fi
