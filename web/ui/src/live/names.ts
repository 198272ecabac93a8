/** What the elements of rows are called that come without names, as published. Pure. */

/** The demo's cars (`car_live_data`, 2022). */
const CARS = [
  "in_use",
  "longitude",
  "latitude",
  "speed_kmh",
  "fuel_percent",
  "total_km",
  "locked",
  "car",
  "time",
  "taken_in",
  "never",
];

/** The lab's constant rows. */
const CONSTANT = ["sequence", "due_us"];

export function names(topic: string): readonly string[] {
  if (topic === "car_live_data") return CARS;
  return topic.startsWith("lab/rows/") ? CONSTANT : [];
}
