# Joins Halide's runtime and ours: TOOL writes the first, OBJECTS are ours, ORIGINALS the functions of Halide's that ours
# still call under another name (ALIAS:SYMBOL); both lists are separated by commas. Internal symbols become local: two copies of this runtime in
# one program (in two shared libraries, say) do not mix.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${ARGN}\n${text}")
  endif()
endfunction()

string(REPLACE "," ";" OBJECTS "${OBJECTS}")
string(REPLACE "," ";" ORIGINALS "${ORIGINALS}")
run(${TOOL} ${OUT}/halide.o x86-64-linux-cuda-opencl-user_context-large_buffers)
set(aliases)
foreach(original ${ORIGINALS})
  string(REPLACE ":" ";" original ${original})
  list(GET original 0 alias)
  list(GET original 1 symbol)
  # Each function has a section of its own; the second symbol keeps it within reach when ours takes the first.
  list(APPEND aliases --add-symbol ${alias}=.text.${symbol}:0,function,global)
endforeach()
run(${OBJCOPY} ${aliases} ${OUT}/halide.o ${OUT}/halide_aliased.o)
run(${LD} -r -o ${OUT}/joined.o ${OBJECTS} ${OUT}/halide_aliased.o)
run(${OBJCOPY} --wildcard --keep-global-symbol=halide_* --keep-global-symbol=kiln_*
    --localize-symbol=kiln_original_* ${OUT}/joined.o ${OUT}/kiln_runtime.o)
file(REMOVE ${ARCHIVE})
run(${AR} rcsD ${ARCHIVE} ${OUT}/kiln_runtime.o)
run(${CC} -shared -Wl,-soname,libkiln_runtime.so -Wl,-z,defs -Wl,-Bsymbolic -o ${SHARED} ${OUT}/kiln_runtime.o -ldl
    -lpthread -lm)
