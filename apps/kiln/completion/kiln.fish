# fish completion for kiln: kiln completion fish | source
function __kiln_complete
    set -l tokens (commandline -opc)
    set -l typed (commandline -ct)
    for line in ($tokens[1] complete -- $tokens[2..-1] "$typed" 2>/dev/null)
        switch $line
            case ':files'
                __fish_complete_path "$typed"
            case ':folders'
                __fish_complete_directories "$typed"
            case '*'
                echo $line
        end
    end
end
complete -c kiln -f -a '(__kiln_complete)'
