kiln_test(search_model_error_test LABEL error SOURCES ${CMAKE_CURRENT_LIST_DIR}/search_model_error_test.cpp LINK kiln)
